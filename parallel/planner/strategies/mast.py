"""Mast: two halves of a batch through attention and mixtures of all layers, one beside the other.

While one half exchanges tokens the other computes, be it experts or the next layer's attention. For
two halves the best order is found exactly (`two_chains`), over as many layers at once as make
`NUM_STAGES_MAX` stages; the orders of such runs of layers are then put one behind the other, and
flow into each other. The paper's own order is near-optimal by its abstract, which is all that was
at hand.
"""

from collections.abc import Sequence
from typing import NamedTuple

from parallel.planner.block import order_seconds
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate
from parallel.planner.problem import Problem
from parallel.planner.shop import Order, Stage, greedy, operations
from parallel.planner.step import Pass, Step, Work, stages_of
from parallel.planner.two_chains import best_of_two
from parallel.planner.windows import Filling, Window, fill

# Stages planned at once; the search takes time with the square.
NUM_STAGES_MAX = 320


def propose(problem: Problem) -> Candidate | None:
    """Two halves; nothing to say where there is only one token."""
    if problem.workload.num_tokens < 2:
        return None
    return of_step("mast", problem.step(Variant()), Variant())


def of_step(strategy: str, step: Step, variant: Variant) -> Candidate:
    """Two halves of any step."""
    forward = layer_chain(step.forward, step)
    orders = [best_across(forward, step.num_layers)]
    seconds = order_seconds(forward * step.num_layers, orders[0], step.contention)
    filling = None
    if step.backward is not None:
        backward = layer_chain(step.backward, step)
        orders.append(best_across(backward, step.num_layers))
        seconds += order_seconds(backward * step.num_layers, orders[1], step.contention)
        filling = _gradients(backward, orders[1], step)
        seconds += filling.exposed_s
    return Candidate(
        strategy=strategy,
        seconds=seconds,
        variant=variant,
        across=tuple(orders),
        gradients=filling.amounts if filling else (),
        reason="two halves across layers",
    )


def greedy_s(step: Step) -> float:
    """Seconds of two halves as a work-conserving scheduler would run them, gradients left out."""
    seconds = 0.0
    for part in step.passes.values():
        stages = layer_chain(part, step) * step.num_layers
        order = greedy(stages, 2, late_first=True)
        seconds += order_seconds(stages, order, step.contention)
    return seconds


def layer_chain(part: Pass, step: Step) -> list[Stage]:
    """The stages of one layer for half a batch."""
    works: tuple[Work, ...] = (*part.dense, *part.moe)
    if part is step.backward:
        works = (*part.moe, *part.dense)
    return stages_of(works, 2)


def best_across(layer: Sequence[Stage], num_layers: int) -> Order:
    """The order of two halves through all layers."""
    at_once = max(1, min(num_layers, NUM_STAGES_MAX // len(layer)))
    runs: dict[int, Order] = {}
    order: list[int] = []
    for first in range(0, num_layers, at_once):
        num = min(at_once, num_layers - first)
        if num not in runs:
            runs[num] = best_of_two(list(layer) * num).order
        order += [s + first * len(layer) for s in runs[num]]
    return tuple(order)


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
    """Where the slow link is idle, and which gradients exist when it becomes so."""
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
    windows, num_known = [], 0
    for start, end, _ in gaps:
        num_new = sum(layer_s <= start for layer_s in known_s[num_known:])
        windows.append(Window(end - start, num_new * step.gradient_nbytes))
        num_known += num_new
    windows.append(Window(0.0, (step.num_layers - num_known) * step.gradient_nbytes))
    return Gaps(windows, [place for _, _, place in gaps])


def _gradients(layer: Sequence[Stage], order: Order, step: Step) -> Filling:
    """Gradients in the gaps; under contention nothing is for nothing, so all come last."""
    windows = idle_windows(layer, order, step).windows
    if step.contention:
        windows = [Window(0.0, window.produced) for window in windows]
    return fill(windows, step.all_reduce)
