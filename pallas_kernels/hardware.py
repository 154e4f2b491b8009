"""Facts of GPUs, each with its source; the only module that looks at a device."""

import contextlib
import contextvars
import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import jax

from pallas_kernels.errors import ArgumentError, UnsupportedError

# Where the figures are from; `Gpu.sources` names one for every field.
_XLA = "openxla/xla, xla/backends/gpu/target_config/specs/{}.txtpb"
_CUDA_GUIDE = "NVIDIA CUDA C++ Programming Guide 13.0, table Technical Specifications per CC"
_H100_PAPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper, table 2 (SXM5)"
_H200_SHEET = "NVIDIA H200 Tensor Core GPU datasheet (SXM)"
_B200_RATE = "openxla/xla b200.txtpb: 148 SMs x 4 x 1024 multiply-adds a clock at 1.8353 GHz"
_A100_SHEET = "NVIDIA A100 80GB datasheet (SXM)"
_ADA_PAPER = "NVIDIA Ada GPU Architecture whitepaper V2.01, appendix"
_L40S_SHEET = "NVIDIA L40S datasheet"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gpu:
    """One kind of GPU.

    Attributes:
        name: what people call it.
        device_kinds: how JAX's `device.device_kind` starts for it.
        compute_capability: major and minor.
        num_sms: streaming multiprocessors.
        memory_nbytes: device memory.
        memory_bytes_per_s: device memory bandwidth.
        l2_nbytes: level-2 cache.
        smem_per_sm_nbytes: shared memory of a multiprocessor.
        smem_per_block_nbytes: the most of it that one block may have.
        registers_per_sm: 32-bit registers of a multiprocessor.
        clock_hz: highest clock of the multiprocessors.
        bf16_flops_per_s: dense tensor-core rate, float32 accumulation, 2 operations a multiply-add.
        sources: where each figure is from, by field.
    """

    name: str
    device_kinds: tuple[str, ...]
    compute_capability: tuple[int, int]
    num_sms: int
    memory_nbytes: int
    memory_bytes_per_s: float
    l2_nbytes: int
    smem_per_sm_nbytes: int
    smem_per_block_nbytes: int
    registers_per_sm: int
    clock_hz: float
    bf16_flops_per_s: float
    sources: Mapping[str, str] = dataclasses.field(repr=False, compare=False)

    def __post_init__(self):
        """Every figure has a source, and nothing else does."""
        figures = {field.name for field in dataclasses.fields(self)}
        figures -= {"name", "device_kinds", "sources"}
        if set(self.sources) != figures:
            raise ArgumentError(
                "every figure of a Gpu needs a source, and only they",
                got=", ".join(sorted(figures ^ set(self.sources))),
            )

    @property
    def flops_per_byte(self) -> float:
        """bf16 operations in the time of one byte of device memory: the roofline's knee."""
        return self.bf16_flops_per_s / self.memory_bytes_per_s


def _sources(most: str, **others: str) -> Mapping[str, str]:
    """One source for most figures, others by name."""
    figures = (
        "compute_capability num_sms memory_nbytes memory_bytes_per_s l2_nbytes smem_per_sm_nbytes "
        "smem_per_block_nbytes registers_per_sm clock_hz bf16_flops_per_s"
    ).split()
    return MappingProxyType({name: others.get(name, most) for name in figures})


_HOPPER = {
    "compute_capability": (9, 0),
    "num_sms": 132,
    "l2_nbytes": 52_428_800,
    "smem_per_sm_nbytes": 233_472,
    "smem_per_block_nbytes": 232_448,
    "registers_per_sm": 65_536,
    "clock_hz": 1.98e9,
    "bf16_flops_per_s": 989.4e12,
}
_ADA = {
    "compute_capability": (8, 9),
    "smem_per_sm_nbytes": 102_400,
    "smem_per_block_nbytes": 101_376,
    "registers_per_sm": 65_536,
    "clock_hz": 2.52e9,
}
_ADA_SOURCES = {
    "compute_capability": _CUDA_GUIDE,
    "smem_per_sm_nbytes": _CUDA_GUIDE,
    "smem_per_block_nbytes": _CUDA_GUIDE,
    "registers_per_sm": _CUDA_GUIDE,
}

H200 = Gpu(
    name="H200",
    device_kinds=("NVIDIA H200",),
    memory_nbytes=151_397_597_184,
    memory_bytes_per_s=4.8e12,
    sources=_sources(
        _XLA.format("h200"), memory_bytes_per_s=_H200_SHEET, bf16_flops_per_s=_H100_PAPER
    ),
    **_HOPPER,  # type: ignore[arg-type]
)
H100 = Gpu(
    name="H100",
    device_kinds=("NVIDIA H100 80GB HBM3",),
    memory_nbytes=84_942_979_072,
    memory_bytes_per_s=3.35232e12,
    sources=_sources(_XLA.format("h100_sxm"), bf16_flops_per_s=_H100_PAPER),
    **_HOPPER,  # type: ignore[arg-type]
)
B200 = Gpu(
    name="B200",
    device_kinds=("NVIDIA B200",),
    compute_capability=(10, 0),
    num_sms=148,
    memory_nbytes=191_514_411_008,
    memory_bytes_per_s=7.67232e12,
    l2_nbytes=132_644_864,
    smem_per_sm_nbytes=233_472,
    smem_per_block_nbytes=232_448,
    registers_per_sm=65_536,
    clock_hz=1.965e9,
    bf16_flops_per_s=148 * 4 * 1024 * 2 * 1.8353101e9,
    sources=_sources(_XLA.format("b200"), bf16_flops_per_s=_B200_RATE),
)
A100 = Gpu(
    name="A100",
    device_kinds=("NVIDIA A100-SXM4-80GB",),
    compute_capability=(8, 0),
    num_sms=108,
    memory_nbytes=85_100_068_864,
    memory_bytes_per_s=2.03904e12,
    l2_nbytes=41_943_040,
    smem_per_sm_nbytes=167_936,
    smem_per_block_nbytes=166_912,
    registers_per_sm=65_536,
    clock_hz=1.41e9,
    bf16_flops_per_s=312e12,
    sources=_sources(_XLA.format("a100_sxm_80"), bf16_flops_per_s=_A100_SHEET),
)
L40S = Gpu(
    name="L40S",
    device_kinds=("NVIDIA L40S",),
    num_sms=142,
    memory_nbytes=48 * 10**9,
    memory_bytes_per_s=864e9,
    l2_nbytes=98_304 * 1024,
    bf16_flops_per_s=362.05e12,
    sources=_sources(
        _L40S_SHEET,
        l2_nbytes=_ADA_PAPER + " (L40, the same chip)",
        clock_hz=_L40S_SHEET + ": 91.6 TFLOP/s of float32 over 18,176 cores",
        **_ADA_SOURCES,
    ),
    **_ADA,  # type: ignore[arg-type]
)
RTX_4090 = Gpu(
    name="RTX 4090",
    device_kinds=("NVIDIA GeForce RTX 4090",),
    num_sms=128,
    memory_nbytes=24 * 2**30,
    memory_bytes_per_s=1008e9,
    l2_nbytes=73_728 * 1024,
    bf16_flops_per_s=165.2e12,
    sources=_sources(_ADA_PAPER, **_ADA_SOURCES),
    **_ADA,  # type: ignore[arg-type]
)

GPUS: Mapping[str, Gpu] = MappingProxyType(
    {gpu.name: gpu for gpu in (H200, H100, B200, A100, L40S, RTX_4090)}
)

_assumed: contextvars.ContextVar[Gpu | None] = contextvars.ContextVar("assumed_gpu", default=None)


@contextlib.contextmanager
def assume(gpu: Gpu) -> Iterator[Gpu]:
    """Inside the block, `current_gpu()` is `gpu`, whatever the machine has."""
    token = _assumed.set(gpu)
    try:
        yield gpu
    finally:
        _assumed.reset(token)


def current_gpu() -> Gpu | None:
    """The assumed GPU, else the kind of JAX's first device; None where that is no known GPU."""
    assumed = _assumed.get()
    if assumed is not None:
        return assumed
    device = jax.devices()[0]
    if device.platform not in ("gpu", "cuda"):
        return None
    try:
        return gpu_of(device.device_kind)
    except UnsupportedError:
        return None


def is_on_gpu(x: jax.Array) -> bool:
    """Whether an array lies on a GPU; one that is being traced may come to."""
    if isinstance(x, jax.core.Tracer):
        return True
    return all(device.platform in ("gpu", "cuda") for device in x.devices())


def gpu_of(name: str) -> Gpu:
    """The record of a GPU by its name ("H200") or by JAX's `device_kind`.

    Raises:
        UnsupportedError: no record; the message offers the nearest one.
    """
    wanted = name.casefold().replace("_", " ")
    for gpu in GPUS.values():
        if wanted == gpu.name.casefold() or name.startswith(gpu.device_kinds):
            return gpu
    near = difflib.get_close_matches(name.upper(), GPUS, n=1, cutoff=0.5)
    raise UnsupportedError(
        f"known GPUs are {', '.join(GPUS)}",
        got=repr(name),
        fix=f"did you mean {near[0]!r}?" if near else "",
    )
