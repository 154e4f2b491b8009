"""Find what compiles for NVIDIA GPUs: JAX's plug-in, ptxas, nvlink, libdevice and nvdisasm."""

import dataclasses
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from zipjax.dryrun.errors import ToolchainError

_FIX = "pip install 'zipjax[dryrun]'"
_LIBDEVICE = Path("nvvm", "libdevice", "libdevice.10.bc")
_PLUGINS = ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12")
_VARIABLES = ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH")


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """Where the tools are.

    Attributes:
        cuda_root: a folder with bin/ptxas, bin/nvlink (jax 0.12 links every Mosaic kernel) and
            nvvm/libdevice, which is what XLA wants to be told.
        nvdisasm: the disassembler, which need not be in the same folder.
    """

    cuda_root: Path
    nvdisasm: Path

    @property
    def ptxas(self) -> Path:
        """The assembler."""
        return self.cuda_root / "bin" / "ptxas"


def find_toolchain(roots: Sequence[Path] | None = None) -> Toolchain:
    """Look in PyPI's packages, $CUDA_ROOT, $CUDA_HOME, $CUDA_PATH, on PATH, in /usr/local/cuda.

    Args:
        roots: look in these folders instead.

    Raises:
        ToolchainError: something is missing; it says all that is, and what to install.
    """
    wanted = _default_roots() if roots is None else map(Path, roots)
    candidates = [root for root in dict.fromkeys(wanted) if root.is_dir()]
    needs = {
        "ptxas": Path("bin", "ptxas"),
        "nvlink": Path("bin", "nvlink"),
        "libdevice": _LIBDEVICE,
    }
    whole = [root for root in candidates if all((root / path).is_file() for path in needs.values())]
    disassemblers = [root / "bin" / "nvdisasm" for root in candidates]
    nvdisasm = [path for path in disassemblers if path.is_file()]
    if whole and nvdisasm:
        return Toolchain(whole[0], nvdisasm[0])
    missing = [] if nvdisasm else ["nvdisasm"]
    if not whole:
        nearest = max(candidates, key=lambda root: _count(root, needs.values()), default=Path())
        missing = [name for name, path in needs.items() if not (nearest / path).is_file()] + missing
    raise ToolchainError(
        f"compiling for an absent GPU needs {', '.join(needs)} in one folder, and nvdisasm",
        got=f"no {', '.join(missing)} in {', '.join(map(str, candidates)) or 'any folder'}",
        fix=_FIX,
    )


def require_plugin() -> None:
    """Fail where JAX has no CUDA plug-in of its own version to compile with.

    Raises:
        ToolchainError: it is not installed.
    """
    for name in _PLUGINS:
        try:
            if importlib.util.find_spec(name) is not None:
                return
        except ModuleNotFoundError:
            continue
    raise ToolchainError(
        "compiling for an absent GPU needs JAX's CUDA plug-in (no driver, no CUDA libraries)",
        got=f"none of {', '.join(_PLUGINS)}",
        fix=_FIX,
    )


def _default_roots() -> Iterable[Path]:
    # nvidia-cuda-nvcc, nvidia-nvvm and nvidia-cuda-nvdisasm share one folder.
    yield from (Path(entry, "nvidia", "cu13") for entry in sys.path if entry)
    yield from (Path(os.environ[name]) for name in _VARIABLES if os.environ.get(name))
    for tool in ("ptxas", "nvdisasm"):
        found = shutil.which(tool)
        if found:
            yield Path(found).resolve().parents[1]
    yield Path("/usr/local/cuda")


def _count(root: Path, paths: Iterable[Path]) -> int:
    return sum((root / path).is_file() for path in paths)
