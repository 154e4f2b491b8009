"""Find the loops of a kernel from its machine code, and the one in which it spends its time.

A loop is a natural loop: its header dominates the jump back to it, and its body is what reaches
that jump without passing the header. Addresses do not matter, so a block that the assembler moved
to the end of the kernel belongs to the loop that it returns to.
"""

import dataclasses
from collections.abc import Iterable
from typing import Literal

from zipjax.dryrun.pipes import Pipe
from zipjax.dryrun.sass import Function, Instruction

# A wait for a barrier is three or four instructions and a branch; a loop that does work is longer.
_SPIN_LENGTH_MAX = 12


@dataclasses.dataclass(frozen=True)
class Loop:
    """A set of blocks, each by the index of its first instruction.

    Attributes:
        header: the block through which it is entered.
        blocks: all of it, the header and inner loops included.
        latches: the blocks that jump back to the header.
    """

    header: int
    blocks: frozenset[int]
    latches: frozenset[int]


class ControlFlow:
    """The blocks of a function and how control goes from one to the next."""

    def __init__(self, function: Function):
        """Cut the function into blocks; keep those that its start reaches."""
        code = function.instructions
        self._code = code
        starts = sorted(_block_starts(code))
        self._stop = dict(zip(starts, [*starts[1:], len(code)], strict=True))
        successors = {block: self._after(block) for block in starts}
        self.order = _reverse_postorder(successors)
        self.successors = {block: successors[block] for block in self.order}
        self.predecessors: dict[int, list[int]] = {block: [] for block in self.order}
        for block in self.order:
            for after in self.successors[block]:
                self.predecessors[after].append(block)
        self.dominators = self._dominators()

    def instructions(self, blocks: Iterable[int]) -> list[Instruction]:
        """Those of the blocks, in the order of addresses."""
        return [self._code[i] for block in sorted(blocks) for i in range(block, self._stop[block])]

    def loops(self) -> list[Loop]:
        """Every loop; several jumps back to one header are one loop."""
        latches: dict[int, set[int]] = {}
        for block in self.order:
            for after in self.successors[block]:
                if after in self.dominators[block]:
                    latches.setdefault(after, set()).add(block)
        return [
            Loop(header, self._body(header, tails), frozenset(tails))
            for header, tails in latches.items()
        ]

    def dominated_by(self, block: int) -> set[int]:
        """Blocks that are only reached through this one, itself included."""
        return {other for other in self.order if block in self.dominators[other]}

    def divergent_targets(self) -> set[int]:
        """Blocks to which only a warp goes whose lanes have parted."""
        jumps = (self._code[self._stop[block] - 1] for block in self.order)
        return {
            jump.target for jump in jumps if jump.is_divergent_branch and jump.target is not None
        }

    def _after(self, block: int) -> list[int]:
        stop = self._stop[block]
        last = self._code[stop - 1]
        goes_on = stop < len(self._code) and (
            last.is_conditional or (last.target is None and not last.ends)
        )
        return ([stop] if goes_on else []) + ([last.target] if last.target is not None else [])

    def _dominators(self) -> dict[int, set[int]]:
        """Iterate to the fixed point (Aho, Lam, Sethi, Ullman, Compilers, section 9.6.1)."""
        everything = set(self.order)
        dominators = {block: everything for block in self.order}
        dominators[self.order[0]] = {self.order[0]}
        changed = True
        while changed:
            changed = False
            for block in self.order[1:]:
                before = [dominators[p] for p in self.predecessors[block]]
                new = set.intersection(*before) | {block}
                changed |= new != dominators[block]
                dominators[block] = new
        return dominators

    def _body(self, header: int, latches: set[int]) -> frozenset[int]:
        body, waiting = {header}, list(latches)
        while waiting:
            block = waiting.pop()
            if block not in body:
                body.add(block)
                waiting += self.predecessors[block]
        return frozenset(body)


@dataclasses.dataclass(frozen=True)
class MainLoop:
    """What a kernel does over and over.

    Attributes:
        instructions: of one trip, each once; those of inner loops once too.
        inner: how many of them are in inner loops, which may run seldom or often.
        waiting: instructions left out: see `main_loop`.
        is_whole_kernel: there is no loop, so this is the kernel from its start to its end.
    """

    instructions: tuple[Instruction, ...]
    inner: int
    waiting: int
    is_whole_kernel: bool


Kind = Literal["tensor_core", "longest"]


def main_loop(function: Function, *, kind: Kind = "tensor_core", depth: int = 0) -> MainLoop:
    """The outermost loop that holds tensor-core instructions, or the longest loop where none does.

    Where several are outermost, the one with most tensor-core instructions, then with most of all.

    Two things that ptxas puts at the end of a kernel belong to the loop by control flow and are
    left out: the spin on a barrier (`SYNCS...TRYWAIT` until it succeeds) that a warp only enters
    when data came late, with the jump back out of it; and what `BRA.DIV` branches to, for warps
    whose lanes have parted. A spin in line, through which every trip passes, counts once.

    Args:
        function: the kernel.
        kind: "longest" for the longest loop of all, where other warps decode than those that issue
            tensor-core instructions, as on Blackwell.
        depth: 0 for the outermost such loop; 1 for the one inside it, as in a kernel whose outer
            loop goes over tiles; and so on to the innermost.
    """
    flow = ControlFlow(function)
    loops = flow.loops()
    chosen = _choose(flow, loops, kind, depth)
    if chosen is None:
        away = _off_path(flow, loops, set(flow.order), frozenset())
        kept = set(flow.order) - away
        inner: set[int] = set()
    else:
        away = _off_path(flow, loops, set(chosen.blocks), chosen.latches)
        kept = set(chosen.blocks) - away
        inner = set().union(*(loop.blocks for loop in loops if loop.blocks < chosen.blocks))
    return MainLoop(
        instructions=tuple(flow.instructions(kept)),
        inner=len(flow.instructions(kept & inner)),
        waiting=len(flow.instructions(away)),
        is_whole_kernel=chosen is None,
    )


def _choose(flow: ControlFlow, loops: list[Loop], kind: Kind, depth: int) -> Loop | None:
    def weight(loop: Loop) -> tuple[int, int]:
        code = flow.instructions(loop.blocks)
        tensor = sum(each.pipe is Pipe.TENSOR for each in code)
        return tensor if kind == "tensor_core" else 0, len(code)

    candidates = [loop for loop in loops if weight(loop)[0]] or loops
    chosen = max(candidates, key=weight, default=None)
    for _ in range(depth):
        inside = [loop for loop in candidates if chosen and loop.blocks < chosen.blocks]
        chosen = max(inside, key=weight, default=chosen)
    return chosen


def _off_path(
    flow: ControlFlow, loops: list[Loop], blocks: set[int], latches: frozenset[int]
) -> set[int]:
    """Blocks that a warp does not enter when data are there and its lanes are together."""
    entrances = flow.divergent_targets() & blocks
    for loop in loops:
        if loop.header in blocks and loop.blocks <= blocks and _is_spin(flow, loop):
            entrances.add(loop.header)
    away: set[int] = set()
    for entrance in entrances:
        behind = flow.dominated_by(entrance) & blocks
        # What every trip passes through is on the path.
        if not behind & latches and not _is_on_every_path(flow, entrance, latches):
            away |= behind
    return away


def _is_on_every_path(flow: ControlFlow, block: int, latches: frozenset[int]) -> bool:
    ends = latches or {last for last in flow.order if not flow.successors[last]}
    return any(block in flow.dominators[end] for end in ends)


def _is_spin(flow: ControlFlow, loop: Loop) -> bool:
    code = flow.instructions(loop.blocks)
    waits = any("TRYWAIT" in each.opcode for each in code)
    works = any(each.pipe in (Pipe.TENSOR, Pipe.SHARED, Pipe.MEMORY) for each in code)
    return waits and not works and len(code) <= _SPIN_LENGTH_MAX


def _block_starts(code: tuple[Instruction, ...]) -> set[int]:
    starts = {0}
    for i, instruction in enumerate(code):
        if instruction.target is not None:
            starts.add(instruction.target)
        if (instruction.target is not None or instruction.ends) and i + 1 < len(code):
            starts.add(i + 1)
    return {start for start in starts if start < len(code)}


def _reverse_postorder(successors: dict[int, list[int]]) -> list[int]:
    """Blocks that the first one reaches, each after those before it, loops aside."""
    first = min(successors)
    seen, order = {first}, []
    stack = [(first, iter(successors[first]))]
    while stack:
        block, rest = stack[-1]
        for after in rest:
            if after not in seen:
                seen.add(after)
                stack.append((after, iter(successors[after])))
                break
        else:
            order.append(block)
            stack.pop()
    return order[::-1]
