"""Several parts of a batch across layers, in the order of a work-conserving scheduler.

More parts than Mast's two leave a busy resource fewer gaps and start more operations. No proof goes
with the order; `Plan.bound_s` says how much there can be left to gain. Which way of travelling, how
many parts and which order are promising is found on a few layers, whose additional time each
predicts that of all.
"""

from dataclasses import dataclass
from itertools import product

from parallel.planner.across import across_layers, layer_chain
from parallel.planner.block import order_seconds
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate
from parallel.planner.problem import Problem
from parallel.planner.shop import greedy
from parallel.planner.step import Pass, Step

NUM_PARTS = (2, 3, 4, 6, 8)
# Layers of the two probes.
_FEW, _MORE = 2, 4


@dataclass(frozen=True)
class Choice:
    """What to try.

    Attributes:
        variant: how tokens travel.
        num_parts: of the batch.
        late_first: of parts that can go on together, whether the one ahead goes first; for each
            direction.
    """

    variant: Variant
    num_parts: int
    late_first: tuple[bool, ...]


def choices(problem: Problem) -> list[Choice]:
    """Everything there is to try, the most promising first; nothing where tokens are too few."""
    probed = [
        _probe(problem.step(variant), variant, num_parts)
        for variant, num_parts in product(problem.variants, NUM_PARTS)
        if num_parts in problem.degrees
    ]
    return [choice for _, choice in sorted(probed, key=lambda item: item[0])]


def _probe(step: Step, variant: Variant, num_parts: int) -> tuple[float, Choice]:
    """Predicted seconds of a step, and the better order of each direction."""
    seconds, late_first = 0.0, []
    for part in step.passes.values():
        by_order = {late: _extended_s(part, step, num_parts, late) for late in (False, True)}
        late_first.append(min(by_order, key=lambda late: by_order[late]))
        seconds += by_order[late_first[-1]]
    return seconds, Choice(variant, num_parts, tuple(late_first))


def _extended_s(part: Pass, step: Step, num_parts: int, late_first: bool) -> float:
    """Seconds of all layers, from those of a few."""
    layer = layer_chain(part, step, num_parts)

    def seconds(num_layers: int) -> float:
        stages = layer * num_layers
        order = greedy(stages, num_parts, late_first=late_first)
        return order_seconds(stages, order, step.contention)

    if step.num_layers <= _MORE:
        return seconds(step.num_layers)
    few, more = seconds(_FEW), seconds(_MORE)
    return more + (step.num_layers - _MORE) * (more - few) / (_MORE - _FEW)


def carry_out(step: Step, choice: Choice, strategy: str) -> Candidate:
    """The schedule of a choice.

    Args:
        step: of the choice's variant.
        choice: what to do.
        strategy: who proposes it.
    """
    orders = [
        greedy(
            layer_chain(part, step, choice.num_parts) * step.num_layers,
            choice.num_parts,
            late_first=late_first,
        )
        for part, late_first in zip(step.passes.values(), choice.late_first, strict=True)
    ]
    return across_layers(
        strategy,
        step,
        choice.variant,
        num_parts=choice.num_parts,
        orders=orders,
        reason=f"{choice.num_parts} parts across layers",
    )
