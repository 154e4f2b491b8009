"""FSMoE: slow link, fast link and device at once, degrees from four closed forms.

A chunk is dispatched (d, slow link), gathered (g, fast link), computed (e), scattered (s, fast
link) and combined (d). With r chunks and an exchange of gradients of x seconds the paper predicts
the highest of four cases, each the seconds of a chunk multiplied out:

    C1  2 r d + x            the slow link is busy throughout
    C2  2 d + g + s + r e    the experts are
    C3  2 r d + g + s        the dispatches and combines are, and x is small
    C4  2 d + r (g + s)      the fast link is

Its seven conditions only say which of the four is the highest. Each is convex in r. The paper
solves every case by SLSQP and rounds; the highest of the four is evaluated here for every degree.
C3 is higher than what the schedule really takes: with two chunks or more gather and scatter of one
hide behind the dispatch of the next. `propose` uses the paper's degrees and times them truly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.layerwise import assemble, dispatched_first, gradients_hidden, in_turn
from parallel.planner.problem import Problem
from parallel.planner.step import Pass, Step, Work


@dataclass(frozen=True)
class ChunkTimes:
    """Seconds of a chunk.

    Attributes:
        exchange: dispatch or combine, the longer one.
        gather: over the fast link before the experts.
        scatter: over the fast link after them.
        experts: of the device.
    """

    exchange: float
    gather: float
    scatter: float
    experts: float


def closed_form_s(times: ChunkTimes, degree: int, gradient_s: float = 0.0) -> float:
    """Seconds of a mixture as the paper predicts them.

    Args:
        times: of one of `degree` chunks.
        degree: number of chunks.
        gradient_s: of the exchange of gradients beside it.
    """
    d, e, near = times.exchange, times.experts, times.gather + times.scatter
    if degree == 1:
        return max(2 * d + near + e, 2 * d + gradient_s)
    return max(
        2 * degree * d + gradient_s,
        2 * d + near + degree * e,
        2 * degree * d + near,
        2 * d + degree * near,
    )


def chunk_times(works: Sequence[Work], degree: int) -> ChunkTimes:
    """The paper's four figures of a chain: what stands before the experts, and what after."""
    middle = next(i for i, work in enumerate(works) if work.name == "experts")

    def total(part: Sequence[Work], resource: str) -> float:
        return sum(work.seconds(degree) for work in part if work.resource == resource)

    before, after = works[:middle], works[middle + 1 :]
    return ChunkTimes(
        exchange=max(total(before, "inter"), total(after, "inter")),
        gather=total(before, "intra"),
        scatter=total(after, "intra"),
        experts=total(works, "compute"),
    )


def best_degree(works: Sequence[Work], degrees: Sequence[int], gradient_s: float = 0.0) -> int:
    """The paper's degree: the lowest closed form.

    Args:
        works: the chain of a mixture.
        degrees: to choose from.
        gradient_s: of the exchange of gradients beside it.
    """
    return min(
        degrees, key=lambda degree: closed_form_s(chunk_times(works, degree), degree, gradient_s)
    )


def propose(problem: Problem) -> Candidate:
    """Forward and backward with their own degrees; gradients where they fit."""
    step = problem.step(Variant())
    forward = _direction(step.forward, step, problem.degrees, 0.0)
    reason = f"r={forward.mixture.num_chunks}"
    if step.backward is None:
        return assemble("fsmoe", step, forward, None, variant=Variant(), reason=reason)
    gradient_s = step.all_reduce(step.gradient_nbytes)
    backward = _direction(step.backward, step, problem.degrees, gradient_s)
    return assemble(
        "fsmoe",
        step,
        forward,
        backward,
        filling=gradients_hidden(step, backward),
        variant=Variant(),
        reason=f"{reason}, backward r={backward.mixture.num_chunks}, gradients partitioned",
    )


def _direction(part: Pass, step: Step, degrees: Sequence[int], gradient_s: float) -> PassPlan:
    degree = best_degree(part.moe, degrees, gradient_s)
    return in_turn(part, step, dispatched_first(part.moe, degree, step))
