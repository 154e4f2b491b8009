"""Two chunks through chains of any length, exactly and fast: Akers' graphical method.

Progress of the two chunks is a point in the plane, x seconds of work of the first and y of the
second. Moving right, up or diagonally is one of them working, or both. Where both would hold the
same resource the plane has a rectangular obstacle. A schedule is a monotone path from corner to
corner around the obstacles, and its makespan is the time the path takes. From a corner of an
obstacle a best path goes on diagonally to the next one and passes it by its upper left or lower
right corner, so that a shortest path over these corners is the best schedule (Akers 1956; Brucker
1988). For n stages that is n^2 corners at most, where a search over orders has 2^n: it plans
attention and experts of a whole model at once.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from pallas_kernels import ArgumentError
from parallel.planner.shop import Order, Stage, greedy, run_order


class TwoChains(NamedTuple):
    """The best schedule of two chunks.

    Attributes:
        seconds: that it takes.
        order: as in `parallel.planner.shop`, for two chunks of one chain.
    """

    seconds: float
    order: Order


def best_of_two(stages: Sequence[Stage]) -> TwoChains:
    """Find the order of two alike chunks that takes the least time; there is no better one.

    Args:
        stages: of a chunk, any number, none of them empty.

    Raises:
        ArgumentError: a stage takes no time.
    """
    if not stages or min(stage.seconds for stage in stages) <= 0:
        raise ArgumentError("stages must take more than no time", fix="leave empty stages out")
    resources = [stage.resource for stage in stages]
    starts = [0.0, *accumulate(stage.seconds for stage in stages)]
    best: dict[tuple[int, int], tuple[float, tuple[int, int] | None]] = {(0, 0): (0.0, None)}
    num = len(stages)
    left = _Left(stages)
    limit = left.limit()
    by_progress: list[set[tuple[int, int]]] = [set() for _ in range(2 * num + 1)]
    by_progress[0].add((0, 0))
    for corners in by_progress:
        for corner in sorted(corners):
            for following, cost in _edges(corner, starts, resources):
                total = best[corner][0] + cost
                if total + left.bound(following) > limit:
                    continue
                if following not in best or total < best[following][0]:
                    best[following] = (total, corner)
                    by_progress[sum(following)].add(following)
    return TwoChains(best[num, num][0], _order(best, starts, (num, num)))


class _Left:
    """What is left to do from a corner, and a schedule to beat."""

    def __init__(self, stages: Sequence[Stage]):
        self.stages = stages
        names = {stage.resource for stage in stages}
        # By resource: seconds of the stages from each one on; and of all of them.
        self.after = [
            _sums_to_the_end([s.seconds if s.resource == name else 0.0 for s in stages])
            for name in sorted(names)
        ]
        self.chain = _sums_to_the_end([stage.seconds for stage in stages])

    def bound(self, corner: tuple[int, int]) -> float:
        """Seconds that the rest takes at least."""
        i, j = corner
        work = max(after[i] + after[j] for after in self.after)
        return max(work, self.chain[i], self.chain[j])

    def limit(self) -> float:
        """Seconds that a simple schedule takes, and a little for rounding."""
        orders = (greedy(self.stages, 2, late_first=late) for late in (False, True))
        return min(run_order(self.stages, order) for order in orders) * (1 + 1e-9)


def _sums_to_the_end(values: list[float]) -> list[float]:
    return [0.0, *accumulate(reversed(values))][::-1]


def _edges(
    corner: tuple[int, int], starts: Sequence[float], resources: Sequence[str]
) -> list[tuple[tuple[int, int], float]]:
    """The corners to go on to, and the seconds it takes.

    Args:
        corner: stages that the two chunks have behind them; neither is within one.
        starts: seconds of work before each stage, and before the end.
        resources: of each stage.
    """
    num = len(resources)
    met = _first_obstacle(corner, starts, resources)
    x, y = starts[corner[0]], starts[corner[1]]
    if met is None:
        return [((num, num), max(starts[num] - x, starts[num] - y))]
    i, j = met
    # The first chunk goes first through stage i, or the second through stage j.
    return [
        ((i + 1, j), max(starts[i + 1] - x, starts[j] - y)),
        ((i, j + 1), max(starts[i] - x, starts[j + 1] - y)),
    ]


def _first_obstacle(
    corner: tuple[int, int], starts: Sequence[float], resources: Sequence[str]
) -> tuple[int, int] | None:
    """The first pair of stages on one resource whose insides the diagonal from `corner` crosses."""
    num = len(resources)
    i, j = corner
    shift = starts[j] - starts[i]
    while i < num and j < num:
        if resources[i] == resources[j]:
            return i, j
        ends_x, ends_y = starts[i + 1] + shift, starts[j + 1]
        # Both may end together: then the diagonal passes through a corner, and touches nothing.
        i += ends_x <= ends_y
        j += ends_y <= ends_x
    return None


def _order(
    best: dict[tuple[int, int], tuple[float, tuple[int, int] | None]],
    starts: Sequence[float],
    end: tuple[int, int],
) -> Order:
    """Stage numbers in the order in which the operations start."""
    corners: list[tuple[int, int]] = []
    at: tuple[int, int] | None = end
    while at is not None:
        corners.append(at)
        at = best[at][1]
    corners.reverse()
    events = []
    for here, there in pairwise(corners):
        for axis in (0, 1):
            for stage in range(here[axis], there[axis]):
                start = best[here][0] + starts[stage] - starts[here[axis]]
                events.append((start, stage, axis))
    return tuple(stage for _, stage, _ in sorted(events))
