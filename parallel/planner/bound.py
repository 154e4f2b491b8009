"""Seconds that no schedule of a step beats, whatever its degrees, orders and overlaps.

A resource must do all of its work, and work cut into chunks is not less than in the best number of
pieces; the slow link also carries all gradients, in one exchange at least. This holds for
schedules in which every device does attention and experts (not FinDEP's).
"""

from collections import defaultdict
from collections.abc import Sequence

from parallel.planner.problem import Problem
from parallel.planner.step import Step, Work


def bound_s(problem: Problem) -> float:
    """The least of all ways in which tokens can travel."""
    return min(step_bound_s(problem.step(v), problem.degrees) for v in problem.variants)


def step_bound_s(step: Step, degrees: Sequence[int]) -> float:
    """Seconds in which the busiest resource does its work.

    Args:
        step: with its tokens travelling one way.
        degrees: numbers of chunks that schedules may have.
    """
    busy: dict[str, float] = defaultdict(float)
    for part in step.passes.values():
        for work in (*part.dense, *part.moe):
            busy[work.resource] += step.num_layers * _least_s(work, degrees)
    busy["inter"] += step.all_reduce(step.num_layers * step.gradient_nbytes)
    return max(busy.values())


def _least_s(work: Work, degrees: Sequence[int]) -> float:
    """Of a layer, in the number of chunks that takes the least in all."""
    return min(degree * work.seconds(degree) for degree in degrees)
