"""PipeMoE: chunks through one link and one device, the degree from a closed form.

With r chunks, dispatches first, the mixture takes (PipeMoE, performance model; d and e are the
seconds of a chunk on the link and on the device)

    t(1) = 2 d + e          t(r) = max(2 r d, 2 d + r e)   for r >= 2

since the middle case of the paper, (r + 1) d + e, is never the highest for r >= 2: it is so only if
both e > (r - 1) d and d > e. With d = a_d + b_d n_d / r and e = a_e + b_e n_e / r both branches are
convex in r, so the best whole number stands next to the real optimum of one of them or to where
they cross. The paper's solver finds the real optimum numerically (SLSQP) and rounds it.
"""

from collections.abc import Sequence
from math import ceil, floor, sqrt

from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.cost import Line
from parallel.planner.layerwise import assemble, dispatched_first, in_turn
from parallel.planner.problem import Problem
from parallel.planner.step import Pass, Step, on_one_link


def pipeline_s(link: Line, num_sent: float, expert: Line, num_work: float, degree: int) -> float:
    """Seconds of a mixture in `degree` chunks.

    Args:
        link: cost of one direction's exchange.
        num_sent: its amount, all chunks together.
        expert: cost of the experts.
        num_work: their amount, all chunks together.
        degree: number of chunks, at least 1.
    """
    d, e = link(num_sent / degree), expert(num_work / degree)
    return 2 * d + e if degree == 1 else max(2 * degree * d, 2 * d + degree * e)


def best_degree(
    link: Line, num_sent: float, expert: Line, num_work: float, *, degree_max: int
) -> int:
    """The degree that takes the least time; the smallest of those that do.

    Args:
        link: cost of one direction's exchange.
        num_sent: its amount.
        expert: cost of the experts.
        num_work: their amount.
        degree_max: the highest degree allowed.
    """
    sent_s, work_s = link.s_per_unit * num_sent, expert.s_per_unit * num_work
    real = {1.0, 2.0, float(degree_max)}
    if expert.alpha_s > 0:
        real.add(sqrt(2 * sent_s / expert.alpha_s))  # the lowest point of 2 d + r e
    real |= _crossings(link.alpha_s, sent_s, expert.alpha_s, work_s)
    near = {whole for x in real if x < 1e9 for whole in (floor(x), ceil(x))}
    allowed = sorted({min(max(x, 1), degree_max) for x in near})
    return min(allowed, key=lambda r: pipeline_s(link, num_sent, expert, num_work, r))


def paper_degree(link: Line, num_sent: float, expert: Line, num_work: float) -> int:
    """What the paper's solver gives: the real optimum of each of its cases, rounded.

    Its case f2 has a formula; f3 is lowest where its slope is nought or its branch ends; f4 where
    its branch begins. Of the rounded degrees and 1 the fastest is taken.

    Args:
        link: cost of one direction's exchange.
        num_sent: its amount.
        expert: cost of the experts.
        num_work: their amount.
    """
    sent_s, work_s = link.s_per_unit * num_sent, expert.s_per_unit * num_work
    real = _crossings(link.alpha_s, sent_s, expert.alpha_s, work_s)
    degrees = {1, 2}
    if link.alpha_s != expert.alpha_s:
        real.add(ceil(min((work_s - sent_s) / (link.alpha_s - expert.alpha_s), 1e9)))
    if expert.alpha_s > 0:
        real.add(sqrt(2 * sent_s / expert.alpha_s))
    degrees |= {max(2, round(x)) for x in real if x < 1e9}
    return min(degrees, key=lambda r: (pipeline_s(link, num_sent, expert, num_work, r), r))


def propose(problem: Problem) -> Candidate:
    """All communication on one stream; gradients at the end."""
    step = on_one_link(problem.step(Variant()))
    return of_step("pipemoe", step, problem.degrees)


def of_step(strategy: str, step: Step, degrees: Sequence[int]) -> Candidate:
    """The fastest degree for each direction, dispatches first."""
    forward = piped(step.forward, step, degrees)
    backward = None if step.backward is None else piped(step.backward, step, degrees)
    reason = f"r={forward.mixture.num_chunks}"
    if backward is not None:
        reason += f", backward r={backward.mixture.num_chunks}"
    return assemble(
        strategy, step, forward, backward, variant=Variant(), one_link=True, reason=reason
    )


def piped(part: Pass, step: Step, degrees: Sequence[int]) -> PassPlan:
    """A direction with the mixture in the fastest of `degrees`."""
    blocks = [dispatched_first(part.moe, degree, step) for degree in degrees]
    return in_turn(part, step, min(blocks, key=lambda block: block.seconds))


def _crossings(alpha_d: float, sent_s: float, alpha_e: float, work_s: float) -> set[float]:
    """Degrees at which 2 r d = 2 d + r e, where there are any.

    Multiplied by r that is 2 (a_d r + s)(r - 1) = r (a_e r + w), a quadratic in r.
    """
    square = 2 * alpha_d - alpha_e
    slope = 2 * sent_s - 2 * alpha_d - work_s
    constant = -2 * sent_s
    if square == 0:
        return {-constant / slope} if slope > 0 else set()
    inner = slope * slope - 4 * square * constant
    if inner < 0:
        return set()
    roots = ((-slope + sign * sqrt(inner)) / (2 * square) for sign in (1, -1))
    return {root for root in roots if root > 0}
