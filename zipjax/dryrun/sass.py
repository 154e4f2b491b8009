"""Read NVIDIA's machine code as `nvdisasm -c` prints it: instructions and where they branch to."""

import dataclasses
import re
import subprocess
import tempfile
from pathlib import Path

from pallas_kernels import FormatError
from zipjax.dryrun.errors import ToolchainError
from zipjax.dryrun.pipes import Pipe, pipe_of

_SECTION = re.compile(r"\s*\.section\s+\.text\.(\S+?),")
_LABEL = re.compile(r"(\.L\w+):\s*$")
_INSTRUCTION = re.compile(
    r"\s*/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z]\w*(?:\.\w+)*)\s*(.*?)\s*;"
)
_TARGET = re.compile(r"`\((\.L\w+)\)")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_BRANCHES = ("BRA", "JMP")
_INDIRECT = ("BRX", "JMX")
_ENDS = ("EXIT", "RET", "KILL")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        opcode: with its modifiers, e.g. "LDS.128".
        guard: the predicate without which it does nothing, e.g. "!P1"; empty for none.
        operands: what stands after the opcode.
        target: index of the instruction that it may branch to; None where it does not branch.
    """

    opcode: str
    guard: str
    operands: str
    target: int | None

    @property
    def pipe(self) -> Pipe:
        """Where it executes."""
        return pipe_of(self.opcode)

    @property
    def is_conditional(self) -> bool:
        """Whether control may go on to the next instruction although it branches or ends.

        `@P0 BRA L`, `BRA.DIV UR4, L` and `BRA.U !UP0, L` may; `BRA L` may not.
        """
        return bool(self.guard) or bool(_TARGET.sub("", self.operands).strip(" ,"))

    @property
    def ends(self) -> bool:
        """Whether it may end the thread."""
        return self.opcode.startswith(_ENDS)

    @property
    def is_divergent_branch(self) -> bool:
        """Whether it branches only for a warp whose lanes have parted."""
        return self.opcode.startswith("BRA.DIV")


@dataclasses.dataclass(frozen=True)
class Function:
    """A kernel's instructions in the order of their addresses."""

    name: str
    instructions: tuple[Instruction, ...]


def parse_sass(text: str) -> list[Function]:
    """Read what `nvdisasm -c` printed.

    Raises:
        FormatError: no instruction, or a branch to a label that is not there.
    """
    sections: dict[str, tuple[list[tuple[str, str, str]], dict[str, int]]] = {}
    rows: list[tuple[str, str, str]] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if section := _SECTION.match(line):
            rows, labels = sections.setdefault(section[1], ([], {}))
        elif label := _LABEL.match(line):
            labels[label[1]] = len(rows)
        elif instruction := _INSTRUCTION.match(line):
            rows.append((instruction[1] or "", instruction[2], instruction[3]))
    functions = [_function(name, *section) for name, section in sections.items() if section[0]]
    if not functions:
        raise FormatError("a disassembly holds at least one function", got=text[:200].strip())
    return functions


def entry_function(ptx: str, functions: list[Function]) -> Function:
    """The kernel itself: on Blackwell ptxas puts functions beside it that check its tensor memory.

    Raises:
        FormatError: the PTX has not one entry, or the machine code lacks it.
    """
    entries = _ENTRY.findall(ptx)
    found = [function for function in functions if function.name in entries]
    if len(entries) != 1 or len(found) != 1:
        names = ", ".join(function.name for function in functions)
        raise FormatError("a kernel has one entry", got=f"{', '.join(entries)} in {names}")
    return found[0]


def disassemble(cubin: bytes, nvdisasm: Path) -> str:
    """The machine code of a cubin as text.

    Raises:
        ToolchainError: nvdisasm refused it.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([nvdisasm, "-c", file.name], capture_output=True, text=True)
    if done.returncode:
        raise ToolchainError("nvdisasm could not read a cubin", got=done.stderr.strip()[-500:])
    return done.stdout


def _function(name: str, rows: list[tuple[str, str, str]], labels: dict[str, int]) -> Function:
    instructions = []
    for guard, opcode, operands in rows:
        target = None
        if opcode.startswith(_INDIRECT):
            raise FormatError(
                f"{name}: every branch says where it goes", got=f"{opcode} {operands}"
            )
        if opcode.startswith(_BRANCHES):
            found = _TARGET.search(operands)
            if found is None or found[1] not in labels:
                raise FormatError(f"{name}: a branch has a target", got=f"{opcode} {operands}")
            target = labels[found[1]]
        instructions.append(Instruction(opcode, guard, operands, target))
    return Function(name, tuple(instructions))
