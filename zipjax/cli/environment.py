"""Facts about this machine and its software, for `zipjax doctor` and bug reports."""

import os
import platform
import socket
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import jax

from pallas_kernels import __version__

PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "ml_dtypes",
    "safetensors",
    "xxhash",
    "jax-cuda13-plugin",
    "jax-cuda12-plugin",
)
# Settings that change what runs or how fast; nothing that could be a secret.
VARIABLES = (
    "JAX_PLATFORMS",
    "JAX_ENABLE_X64",
    "JAX_NUM_CPU_DEVICES",
    "JAX_COMPILATION_CACHE_DIR",
    "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_DEBUG",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_TRIM_THRESHOLD_",
)


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a bug report should say.

    Attributes:
        python: version and implementation.
        platform: operating system and architecture.
        num_cores: cores that this process may use.
        memory_nbytes: memory of the machine; None where it does not say.
        packages: package name -> version, of those installed.
        variables: environment variable -> value, of those set and harmless.
        devices: device kind -> how many JAX sees; "error: ..." -> 0 where it sees none.
        hostname_address: what this machine's name resolves to; None if to nothing.
    """

    python: str
    platform: str
    num_cores: int
    memory_nbytes: int | None
    packages: dict[str, str]
    variables: dict[str, str]
    devices: dict[str, int]
    hostname_address: str | None

    def to_json(self) -> dict[str, Any]:
        """The attributes as JSON can hold them."""
        return asdict(self)


def read_environment() -> Environment:
    """Look around; starts JAX's backend."""
    return Environment(
        python=f"{platform.python_version()} {platform.python_implementation()}",
        platform=platform.platform(),
        num_cores=_num_cores(),
        memory_nbytes=_memory_nbytes(),
        packages=_packages(),
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
        devices=_devices(),
        hostname_address=_hostname_address(),
    )


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_nbytes() -> int | None:
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _packages() -> dict[str, str]:
    versions = {"zipjax": __version__}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _devices() -> dict[str, int]:
    try:
        kinds = [f"{device.platform} {device.device_kind}" for device in jax.devices()]
    except RuntimeError as error:  # A plug-in without its driver, or a platform that is not there.
        return {f"error: {' '.join(str(error).split())}": 0}
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _hostname_address() -> str | None:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
