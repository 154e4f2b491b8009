"""ScheMoE: compression, exchange and experts of a few chunks in the order of its theorem 1.

A chunk is compressed (C1), exchanged (A1), decompressed (D1), computed (E), compressed (C2),
exchanged (A2) and decompressed (D2). The order: every C1; then D1 E C2 of each chunk in turn; then
every D2; on the link every A1, then every A2. The paper proves it by exchanging pairs, which takes
the chunks' order and the grouping D1 E C2 as given; `best_order` takes nothing as given.
"""

from collections.abc import Sequence

from parallel.planner.block import block_of
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.layerwise import assemble, in_turn
from parallel.planner.problem import Problem
from parallel.planner.shop import Order, Stage
from parallel.planner.step import Pass, Step, on_one_link, stages_of

# As in the paper's experiments.
DEGREE = 2


def theorem_order(stages: Sequence[Stage], num_chunks: int) -> Order:
    """The order of theorem 1, for any chain with computing stages around its middle.

    Args:
        stages: of a chunk; the last stage named "experts" is the middle.
        num_chunks: how many.
    """
    middle = max((i for i, stage in enumerate(stages) if stage.name == "experts"), default=0)
    first, last = middle, middle
    while first > 0 and stages[first - 1].resource == "compute":
        first -= 1
    while last + 1 < len(stages) and stages[last + 1].resource == "compute":
        last += 1
    before = tuple(s for s in range(first) for _ in range(num_chunks))
    after = tuple(s for s in range(last + 1, len(stages)) for _ in range(num_chunks))
    return before + tuple(range(first, last + 1)) * num_chunks + after


def propose(problem: Problem) -> Candidate:
    """Two chunks, with the codec where the machine has one."""
    variant = Variant(compressed=problem.machine.codec is not None)
    step = on_one_link(problem.step(variant))
    backward = None if step.backward is None else _direction(step.backward, step)
    return assemble(
        "schemoe",
        step,
        _direction(step.forward, step),
        backward,
        variant=variant,
        one_link=True,
        reason=f"r={DEGREE}, {'compressed' if variant.compressed else 'no codec'}",
    )


def _direction(part: Pass, step: Step) -> PassPlan:
    stages = stages_of(part.moe, DEGREE)
    block = block_of(stages, DEGREE, theorem_order(stages, DEGREE), step.contention)
    return in_turn(part, step, block)
