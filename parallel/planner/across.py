"""Parts of a batch through all layers, one beside the other: layers overlap.

While one part exchanges tokens another computes, be it experts or the next layer's attention. The
chain of a part is the chains of all layers, one behind the other; gradients go to the times in
which the slow link is idle.
"""

from collections.abc import Sequence
from typing import NamedTuple

from parallel.planner.block import order_seconds
from parallel.planner.build import Variant
from parallel.planner.candidate import Across, Candidate
from parallel.planner.shop import Order, Stage, operations
from parallel.planner.step import Pass, Step, stages_of
from parallel.planner.windows import Window, fill


def layer_chain(part: Pass, step: Step, num_parts: int) -> list[Stage]:
    """The stages of one layer for one part of a batch."""
    works = (*part.dense, *part.moe)
    if part is step.backward:
        works = (*part.moe, *part.dense)
    return stages_of(works, num_parts)


def across_layers(
    strategy: str,
    step: Step,
    variant: Variant,
    *,
    num_parts: int,
    orders: Sequence[Order],
    reason: str,
) -> Candidate:
    """A candidate whose layers overlap.

    Args:
        strategy: who proposes it.
        step: what is scheduled.
        variant: how tokens travel.
        num_parts: of the batch.
        orders: through all layers, forward and, in training, backward.
        reason: for people.
    """
    seconds = 0.0
    gradients: tuple[float, ...] = ()
    for part, order in zip(step.passes.values(), orders, strict=True):
        layer = layer_chain(part, step, num_parts)
        seconds += order_seconds(layer * step.num_layers, order, step.contention)
        if part is step.backward:
            filling = fill(idle_windows(layer, order, step).windows, step.all_reduce)
            seconds += filling.exposed_s
            gradients = filling.amounts
    return Candidate(
        strategy=strategy,
        seconds=seconds,
        variant=variant,
        across=Across(num_parts, tuple(orders)),
        gradients=gradients,
        reason=reason,
    )


class Gaps(NamedTuple):
    """Idle times of the slow link in a backward pass.

    Attributes:
        windows: in order of time, and one of no length after the pass.
        places: index in the order of the operation that ends each, or the length of the order; the
            last window left out.
    """

    windows: list[Window]
    places: list[int]


def idle_windows(layer: Sequence[Stage], order: Order, step: Step) -> Gaps:
    """Where the slow link is idle, and which gradients exist when it becomes so.

    Under contention what runs beside a kernel is not for nothing: all windows are of no length.
    """
    stages = list(layer) * step.num_layers
    link_free, known_s = 0.0, [0.0] * step.num_layers
    gaps = []
    for place, (s, _, start, end) in enumerate(operations(stages, order)):
        known_s[s // len(layer)] = max(known_s[s // len(layer)], end)
        if stages[s].resource == "inter":
            if start > link_free:
                gaps.append((link_free, start, place))
            link_free = end
    gaps.append((link_free, max(known_s), len(order)))
    # The backward pass meets its layers in the order of the chain, so these times rise.
    windows, num_known = [], 0
    for start, end, _ in gaps:
        num_new = sum(layer_s <= start for layer_s in known_s[num_known:])
        idle_s = 0.0 if step.contention else end - start
        windows.append(Window(idle_s, num_new * step.gradient_nbytes))
        num_known += num_new
    windows.append(Window(0.0, (step.num_layers - num_known) * step.gradient_nbytes))
    return Gaps(windows, [place for _, _, place in gaps])
