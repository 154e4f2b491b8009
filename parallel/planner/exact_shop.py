"""The best order of identical chunks through a chain of stages, with a proof.

Branch and bound over partial schedules, layer by layer in the number of operations placed. It
branches as Giffler and Thompson (1960) do: among the operations that compete for the resource of
the one that could end first, one must come next, and nothing is lost. A partial schedule is dropped
when another with the same operations placed leaves every resource free and every waiting chunk
ready no later, or when what is left cannot end before the best schedule known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parallel.planner.shop import (
    Order,
    Stage,
    greedy,
    lower_bound,
    run_order,
    stage_major,
)

# Partial schedules kept in all, before the search gives up and says so.
NUM_LABELS_MAX = 20_000
# Sums in another order differ by this much of themselves: no gain to search for.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Schedule:
    """The best order found.

    Attributes:
        seconds: that it takes.
        order: as in `parallel.planner.shop`.
        bound_s: that no order can beat; equal to `seconds` when the search finished.
        num_labels: partial schedules that were kept.
    """

    seconds: float
    order: Order
    bound_s: float
    num_labels: int = 0

    @property
    def proved(self) -> bool:
        """Whether no order is better."""
        return self.seconds <= self.bound_s


class _Label(NamedTuple):
    """A partial schedule: what is placed, and when who is free."""

    placed: tuple[int, ...]  # chunks through each stage, then 0 or 1 for each filler
    free: tuple[float, ...]  # by resource
    ready: tuple[tuple[float, ...], ...]  # by stage: when its waiting chunks may start
    order: Order


def simple_orders(stages: Sequence[Stage], num_chunks: int, num_fillers: int = 0) -> list[Order]:
    """Orders that need no search; fillers go behind the last dispatch, or last of all."""
    orders = [
        stage_major(len(stages), num_chunks),
        greedy(stages, num_chunks, late_first=False),
        greedy(stages, num_chunks, late_first=True),
    ]
    fillers = tuple(range(len(stages), len(stages) + num_fillers))
    if not fillers:
        return orders
    after_first_stage = [_after_last(order, 0, fillers) for order in orders]
    return after_first_stage + [order + fillers for order in orders]


def best_order(
    stages: Sequence[Stage],
    num_chunks: int,
    fillers: Sequence[Stage] = (),
    *,
    num_labels_max: int = NUM_LABELS_MAX,
    gap: float = ROUNDING,
) -> Schedule:
    """Find the order that takes the least time.

    Args:
        stages: of a chunk.
        num_chunks: at least 1.
        fillers: operations of their own.
        num_labels_max: effort; beyond it the best order so far is returned with a bound below it.
        gap: share of the seconds by which an order must be better to be searched for.
    """
    orders = simple_orders(stages, num_chunks, len(fillers))
    seconds, best = min((run_order(stages, order, fillers), order) for order in orders)
    bound = lower_bound(stages, num_chunks, fillers)
    if not _beats(bound, seconds, ROUNDING):
        return Schedule(seconds, best, seconds)
    if not _beats(bound, seconds, gap):
        return Schedule(seconds, best, bound)
    search = _Search(stages, num_chunks, fillers, seconds, best, gap)
    return search.run(bound, num_labels_max)


class _Search:
    def __init__(
        self,
        stages: Sequence[Stage],
        num_chunks: int,
        fillers: Sequence[Stage],
        seconds: float,
        order: Order,
        gap: float,
    ):
        everything = [*stages, *fillers]
        names = list(dict.fromkeys(stage.resource for stage in everything))
        self.num_stages = len(stages)
        self.num_chunks = num_chunks
        self.seconds_of = [stage.seconds for stage in everything]
        self.resource_of = [names.index(stage.resource) for stage in everything]
        self.most = [num_chunks] * len(stages) + [1] * len(fillers)
        # Seconds from the start of a stage to the end of its chunk.
        self.to_go = [sum(s.seconds for s in stages[i:]) for i in range(len(stages))]
        self.to_go += [filler.seconds for filler in fillers]
        self.best_s, self.best_order, self.gap = seconds, order, gap
        self.num_resources = len(names)

    def run(self, bound: float, num_labels_max: int) -> Schedule:
        ready = (tuple([0.0] * self.num_chunks),) + ((),) * (self.num_stages - 1)
        root = _Label((0,) * len(self.most), (0.0,) * self.num_resources, ready, ())
        layer, num_labels = [root], 0
        for _ in range(sum(self.most)):
            kept: dict[tuple[int, ...], list[_Label]] = {}
            for label in layer:
                for child in self._children(label):
                    if _beats(self._bound(child), self.best_s, self.gap) and _is_new(kept, child):
                        num_labels += 1
            layer = [label for labels in kept.values() for label in labels]
            if num_labels > num_labels_max:
                open_bound = min((self._bound(label) for label in layer), default=self.best_s)
                return Schedule(self.best_s, self.best_order, max(bound, open_bound), num_labels)
        for label in layer:
            if _beats(max(label.free), self.best_s, ROUNDING):
                self.best_s, self.best_order = max(label.free), label.order
        # Orders that were dropped are no better than this.
        bound = max(bound, self.best_s * (1 - self.gap)) if self.gap > ROUNDING else self.best_s
        return Schedule(self.best_s, self.best_order, bound, num_labels)

    def _children(self, label: _Label) -> list[_Label]:
        """The partial schedules with one more operation."""
        starts = self._starts(label)
        first = min(starts, key=lambda item: item[1] + self.seconds_of[item[0]])
        deadline = first[1] + self.seconds_of[first[0]]
        resource = self.resource_of[first[0]]
        rivals = [item for item in starts if self.resource_of[item[0]] == resource]
        # An operation of no length at its own deadline still competes.
        chosen = [item for item in rivals if item[1] < deadline] or [first]
        return [self._place(label, s, start) for s, start in chosen]

    def _starts(self, label: _Label) -> list[tuple[int, float]]:
        """The next operation of every stage that has one, and when it could start."""
        found = []
        for s, placed in enumerate(label.placed):
            if placed == self.most[s] or (s < self.num_stages and not label.ready[s]):
                continue
            ready = label.ready[s][0] if s < self.num_stages else 0.0
            found.append((s, max(ready, label.free[self.resource_of[s]])))
        return found

    def _place(self, label: _Label, s: int, start: float) -> _Label:
        end = start + self.seconds_of[s]
        placed, free, ready = list(label.placed), list(label.free), list(label.ready)
        placed[s] += 1
        free[self.resource_of[s]] = end
        if s < self.num_stages:
            ready[s] = ready[s][1:]
            if s + 1 < self.num_stages:
                ready[s + 1] = (*ready[s + 1], end)
        return _Label(tuple(placed), tuple(free), tuple(ready), (*label.order, s))

    def _bound(self, label: _Label) -> float:
        """Seconds that no completion of `label` beats."""
        work = [0.0] * self.num_resources
        head = [float("inf")] * self.num_resources
        tail = [float("inf")] * self.num_resources
        bound = max(label.free)
        for s, placed in enumerate(label.placed):
            left = self.most[s] - placed
            if not left:
                continue
            resource = self.resource_of[s]
            work[resource] += left * self.seconds_of[s]
            tail[resource] = min(tail[resource], self.to_go[s] - self.seconds_of[s])
            ready = 0.0
            if s < self.num_stages:
                ready = self._head(label, s)
                if label.ready[s]:
                    start = max(label.ready[s][-1], label.free[resource])
                    bound = max(bound, start + self.to_go[s])
            head[resource] = min(head[resource], max(ready, label.free[resource]))
        for resource in range(self.num_resources):
            if work[resource]:
                bound = max(bound, head[resource] + work[resource] + tail[resource])
        return bound

    def _head(self, label: _Label, s: int) -> float:
        """The earliest that any chunk can be ready for stage s."""
        gone = 0.0
        for earlier in range(s, -1, -1):
            if label.ready[earlier]:
                # Later chunks of an earlier stage are never ready before the first one there.
                return label.ready[earlier][0] + gone
            if earlier:
                gone += self.seconds_of[earlier - 1]
        return gone


def _is_new(kept: dict[tuple[int, ...], list[_Label]], label: _Label) -> bool:
    """Keep `label` unless one as good is there; drop those that it beats."""
    rivals = kept.setdefault(label.placed, [])
    mine = _times(label)
    left = []
    for rival in rivals:
        theirs = _times(rival)
        if all(a <= b for a, b in zip(theirs, mine, strict=True)):
            return False
        if not all(a <= b for a, b in zip(mine, theirs, strict=True)):
            left.append(rival)
    left.append(label)
    kept[label.placed] = left
    return True


def _times(label: _Label) -> tuple[float, ...]:
    return label.free + tuple(time for ready in label.ready for time in ready)


def _beats(seconds: float, best_s: float, gap: float) -> bool:
    return seconds < best_s * (1 - gap)


def _after_last(order: Order, stage: int, extra: Order) -> Order:
    place = max(i for i, s in enumerate(order) if s == stage) + 1
    return order[:place] + extra + order[place:]
