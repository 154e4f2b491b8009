"""DreamDDP: which layers to average in which step of a period, so that waiting is least.

Every layer is averaged once in H steps. Its exchange may start when the layer's parameters are free
(DreamDDP: when its gradient has been computed; a copy taken at the step's start is free at once),
one exchange after the other, in the order of the backward pass. A step waits for what its compute
does not hide. DreamDDP gives each step a run of neighbouring layers and searches runs by branching.
Here the best runs come from dynamic programming in H L^2, and the best division of any kind from
dynamic programming over the sets of finishing times, where that is affordable; then free gaps take
further layers, as in the paper.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pallas_kernels import ArgumentError

# States of the search for the best division; beyond it runs of neighbours must do.
NUM_STATES_MAX = 20_000


@dataclass(frozen=True)
class Layers:
    """Layers in the order in which the backward pass meets them.

    Attributes:
        ready_s: seconds into the step from which each may be exchanged, rising.
        exchange_s: seconds of each exchange.
        step_s: seconds of the compute that hides them.
    """

    ready_s: tuple[float, ...]
    exchange_s: tuple[float, ...]
    step_s: float

    def __post_init__(self):
        if len(self.ready_s) != len(self.exchange_s) or not self.ready_s:
            raise ArgumentError("there must be as many ready_s as exchange_s, and some", got=self)
        if any(b < a for a, b in zip(self.ready_s, self.ready_s[1:], strict=False)):
            raise ArgumentError("ready_s must rise", got=self.ready_s)


@dataclass(frozen=True)
class SyncSchedule:
    """Which layers each step of a period averages.

    Attributes:
        steps: indices of layers, for each step of the period.
        wait_s: seconds of waiting in the whole period.
    """

    steps: tuple[tuple[int, ...], ...]
    wait_s: float


def behind_backward(backward_s: Sequence[float], exchange_s: Sequence[float]) -> Layers:
    """DreamDDP's rule: a layer is free when the backward pass has gone through it.

    Args:
        backward_s: of each layer, in the order of the backward pass.
        exchange_s: of each layer.
    """
    ready = tuple(accumulate(backward_s))
    return Layers(ready, tuple(exchange_s), ready[-1] if ready else 0.0)


def behind_everything(compute_s: float, exchange_s: Sequence[float]) -> Layers:
    """A copy of the layers due is exchanged while the whole step computes.

    Args:
        compute_s: of the forward and backward pass.
        exchange_s: of each layer.
    """
    return Layers((0.0,) * len(exchange_s), tuple(exchange_s), compute_s)


def wait_s(layers: Layers, chosen: Sequence[int]) -> float:
    """Seconds that a step waits for the exchanges of `chosen`, indices in rising order."""
    end = 0.0
    for i in chosen:
        end = max(end, layers.ready_s[i]) + layers.exchange_s[i]
    return max(0.0, end - layers.step_s)


def schedule_sync(
    layers: Layers, period: int, *, num_states_max: int = NUM_STATES_MAX
) -> SyncSchedule:
    """The schedule that waits least, and more averages in the gaps it leaves.

    Args:
        layers: to be averaged once each.
        period: H, steps.
        num_states_max: effort for divisions that are no runs of neighbours.
    """
    found = best_division(layers, period, num_states_max=num_states_max)
    return with_extra(layers, found or best_runs(layers, period))


def best_runs(layers: Layers, period: int) -> SyncSchedule:
    """The runs of neighbouring layers that wait least: DreamDDP's space, solved exactly."""
    _require_period(period)
    num = len(layers.ready_s)
    # best[i]: least waiting for the layers from i on, in the steps that are left; and where the
    # first of these steps stops.
    best = [0.0 if i == num else float("inf") for i in range(num + 1)]
    stops = []
    for _ in range(period):
        following, stop = best, list(range(num + 1))
        best = list(following)
        for first in range(num):
            end = 0.0
            for i in range(first, num):
                end = max(end, layers.ready_s[i]) + layers.exchange_s[i]
                total = max(0.0, end - layers.step_s) + following[i + 1]
                if total < best[first]:
                    best[first], stop[first] = total, i + 1
        stops.append(stop)
    steps, first = [], 0
    for stop in reversed(stops):
        steps.append(tuple(range(first, stop[first])))
        first = stop[first]
    return SyncSchedule(tuple(steps), best[0])


def best_division(
    layers: Layers, period: int, *, num_states_max: int = NUM_STATES_MAX
) -> SyncSchedule | None:
    """The division of any kind that waits least; None when that takes too many states.

    Steps are alike, so a state is the sorted times at which each step's last exchange ends; times
    before the next layer is ready are the same as that.

    Args:
        layers: to be averaged once each.
        period: H, steps.
        num_states_max: after which the search is given up.
    """
    _require_period(period)
    states: dict[tuple[float, ...], tuple[tuple[int, ...], ...]] = {(0.0,) * period: ((),) * period}
    num_states = 0
    for i, (ready, exchange) in enumerate(zip(layers.ready_s, layers.exchange_s, strict=True)):
        following: dict[tuple[float, ...], tuple[tuple[int, ...], ...]] = {}
        for ends, steps in states.items():
            for slot in range(period):
                if slot and ends[slot] == ends[slot - 1]:
                    continue
                pairs = [
                    (max(end, ready), step)
                    for j, (end, step) in enumerate(zip(ends, steps, strict=True))
                    if j != slot
                ]
                insort(pairs, (max(ends[slot], ready) + exchange, (*steps[slot], i)))
                key = tuple(end for end, _ in pairs)
                following.setdefault(key, tuple(step for _, step in pairs))
        states = following
        num_states += len(states)
        if num_states > num_states_max:
            return None
    waits = {ends: sum(max(0.0, end - layers.step_s) for end in ends) for ends in states}
    best = min(waits, key=lambda ends: (waits[ends], ends))
    steps = tuple(sorted(states[best], key=lambda step: step or (len(layers.ready_s),)))
    return SyncSchedule(steps, waits[best])


def paper_runs(layers: Layers, period: int) -> SyncSchedule:
    """DreamDDP's own search: fits, at least one, else branch into here or later."""
    _require_period(period)
    steps, waits = _branch(layers, 0, period)
    return SyncSchedule((*steps, *((),) * (period - len(steps))), waits)


def equal_runs(layers: Layers, period: int) -> SyncSchedule:
    """The trivial baseline: runs of neighbours with as many layers each."""
    num = len(layers.ready_s)
    cuts = [num * h // period for h in range(period + 1)]
    steps = tuple(tuple(range(a, b)) for a, b in pairwise(cuts))
    return SyncSchedule(steps, sum(wait_s(layers, step) for step in steps))


def with_extra(layers: Layers, found: SyncSchedule) -> SyncSchedule:
    """Average further layers where no step gets longer by it, the earliest ones first."""
    steps = []
    for step in found.steps:
        base = wait_s(layers, step)
        for i in range(len(layers.ready_s)):
            longer = tuple(sorted({*step, i}))
            if wait_s(layers, longer) <= base:
                step = longer
        steps.append(step)
    return SyncSchedule(tuple(steps), found.wait_s)


def _branch(layers: Layers, first: int, left: int) -> tuple[list[tuple[int, ...]], float]:
    """The paper's recursion: layers from `first` in `left` steps."""
    num = len(layers.ready_s)
    if first == num:
        return [], 0.0
    if left == 1:
        rest = tuple(range(first, num))
        return [rest], wait_s(layers, rest)
    end, i = 0.0, first
    while i < num:
        end_with = max(end, layers.ready_s[i]) + layers.exchange_s[i]
        if end_with > layers.step_s:
            break
        end, i = end_with, i + 1
    if i == num:
        return [tuple(range(first, num))], 0.0
    here_steps, here = _branch(layers, i + 1, left - 1)
    here += end_with - layers.step_s
    if i > first:
        later_steps, later = _branch(layers, i, left - 1)
        if later < here:
            return [tuple(range(first, i)), *later_steps], later
    return [tuple(range(first, i + 1)), *here_steps], here


def _require_period(period: int) -> None:
    if period < 1:
        raise ArgumentError("the period must be at least 1", got=period)
