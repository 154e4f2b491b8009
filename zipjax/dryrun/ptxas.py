"""Assemble PTX and read what ptxas says about it."""

import dataclasses
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from zipjax.dryrun.errors import CompileError

_USED = re.compile(r"[Uu]sed (\d+) registers")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SMEM = re.compile(r"(\d+) bytes smem")
_SPILLS = re.compile(r"(\d+) bytes spill (?:stores|loads)")
# "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
_WARNING = re.compile(r"(?:warning\b|Potential Performance Loss|serialized)", re.IGNORECASE)
_PREFIX = re.compile(r"^(?:ptxas|nvlink)?\s*(?:info|warning)?\s*:\s*", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resources:
    """What a kernel takes, as its assembler or linker says.

    Attributes:
        registers: of a thread, at launch.
        spill_bytes: stores and loads of registers that did not fit, in the whole kernel.
        static_smem_bytes: shared memory that is not asked for at launch.
        barriers: named barriers.
        warnings: losses that the assembler points out, such as serialised wgmma.
    """

    registers: int
    spill_bytes: int
    static_smem_bytes: int
    barriers: int
    warnings: tuple[str, ...]


def parse_log(text: str) -> Resources:
    """Read a log of `ptxas -v`, nvlink's lines too; of several figures the largest counts."""
    lines = [line.strip("\0 ") for line in text.splitlines()]
    warnings = (_PREFIX.sub("", line) for line in lines if _WARNING.search(line))

    def most(pattern: re.Pattern) -> int:
        return max((int(figure) for figure in pattern.findall(text)), default=0)

    return Resources(
        registers=most(_USED),
        spill_bytes=sum(int(figure) for figure in _SPILLS.findall(text)),
        static_smem_bytes=most(_SMEM),
        barriers=most(_BARRIERS),
        warnings=tuple(dict.fromkeys(warnings)),
    )


Linkage = Literal["whole", "relocatable"]
LINKAGES: tuple[Linkage, ...] = ("whole", "relocatable")


def assemble(
    name: str, ptx: str, arch: str, ptxas: Path, linkage: Linkage
) -> tuple[bytes, Resources]:
    """Assemble one kernel.

    Args:
        name: what errors call it.
        ptx: its PTX.
        arch: the target, e.g. "sm_90a".
        ptxas: the assembler.
        linkage: as a whole program, or as a part of one to be linked, in which ptxas ignores
            `setmaxnreg`: a warp-specialised kernel then has to do with the registers of its launch.

    Returns:
        The cubin and what ptxas said.

    Raises:
        CompileError: ptxas refused it.
    """
    with tempfile.TemporaryDirectory(prefix="zipjax-dryrun-") as folder:
        source, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [str(ptxas), "-v", "-arch", arch, str(source), "-o", str(cubin)]
        command += ["-c"] if linkage == "relocatable" else []
        done = subprocess.run(command, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode:
            raise CompileError.of(
                name, "error", f"ptxas refused the PTX for {arch}", got=said[-500:]
            )
        return cubin.read_bytes(), parse_log(said)
