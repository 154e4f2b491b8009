"""A GPU that is not there, in the words in which XLA and ptxas want it."""

from typing import NamedTuple

from pallas_kernels import Gpu, UnsupportedError


class _Architecture(NamedTuple):
    """What all GPUs of one compute capability share and our record does not hold.

    NVIDIA CUDA C++ Programming Guide 13.0, tables "Technical Specifications per Compute Capability"
    and "Throughput of Native Arithmetic Instructions" (32-bit floating-point add).
    """

    threads_per_sm: int
    fp32_lanes_per_sm: int


_ARCHITECTURES = {
    (8, 0): _Architecture(2048, 64),
    (8, 9): _Architecture(1536, 128),
    (9, 0): _Architecture(2048, 128),
    (10, 0): _Architecture(2048, 128),
}

# From Hopper on, instructions like wgmma and tcgen05 belong to one chip: the target `sm_90a`.
_FIRST_ACCELERATED = (9, 0)


def ptxas_arch(gpu: Gpu) -> str:
    """The target of PTX and ptxas, e.g. "sm_90a"."""
    major, minor = gpu.compute_capability
    return f"sm_{major}{minor}{'a' if _is_accelerated(gpu) else ''}"


def target_config(gpu: Gpu) -> str:
    """The text proto `stream_executor.GpuTargetConfigProto` by which XLA compiles for `gpu`.

    Versions are those of the libraries that the program will meet: CUDA 13.0 and cuDNN 9.10, with
    which jax[cuda13] comes at the least.

    Raises:
        UnsupportedError: a compute capability whose constants are not known here.
    """
    try:
        architecture = _ARCHITECTURES[gpu.compute_capability]
    except KeyError:
        known = ", ".join(f"{major}.{minor}" for major, minor in _ARCHITECTURES)
        raise UnsupportedError(
            f"a target needs a known compute capability ({known})",
            got="{}.{}".format(*gpu.compute_capability),
            fix="add its constants to zipjax/dryrun/targets.py",
        ) from None
    major, minor = gpu.compute_capability
    features = "ACCELERATED_FEATURES" if _is_accelerated(gpu) else "NONE"
    return f"""\
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {gpu.smem_per_sm_nbytes}
  threads_per_core_limit: {architecture.threads_per_sm}
  core_count: {gpu.num_sms}
  fpus_per_core: {architecture.fp32_lanes_per_sm}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {gpu.memory_bytes_per_s:.0f}
  l2_cache_size: {gpu.l2_nbytes}
  clock_rate_ghz: {gpu.clock_hz / 1e9:g}
  device_memory_size: {gpu.memory_nbytes}
  shared_memory_per_block_optin: {gpu.smem_per_block_nbytes}
  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {features} }}
  registers_per_core_limit: {gpu.registers_per_sm}
  registers_per_block_limit: 65536
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  device_vendor: "NVIDIA Corporation"
  platform_version: "Compute Capability {major}.{minor}{"a" if _is_accelerated(gpu) else ""}"
  device_address_bits: 64
  name: "{gpu.device_kinds[0]}"
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{gpu.device_kinds[0]}"
"""


def _is_accelerated(gpu: Gpu) -> bool:
    return gpu.compute_capability >= _FIRST_ACCELERATED
