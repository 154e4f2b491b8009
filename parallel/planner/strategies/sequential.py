"""Nothing overlaps: DeepSpeed-MoE's schedule, and the yardstick of the others."""

from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.layerwise import assemble, in_turn, whole
from parallel.planner.problem import Problem
from parallel.planner.step import Pass, Step


def propose(problem: Problem) -> Candidate:
    """Every layer in one piece, gradients at the end."""
    return of_step("sequential", problem.step(Variant()), Variant())


def of_step(strategy: str, step: Step, variant: Variant, reason: str = "") -> Candidate:
    """The sequential schedule of any step."""
    forward = in_one_piece(step.forward, step)
    backward = None if step.backward is None else in_one_piece(step.backward, step)
    return assemble(strategy, step, forward, backward, variant=variant, reason=reason)


def in_one_piece(part: Pass, step: Step) -> PassPlan:
    """A direction whose chains are not cut."""
    return in_turn(part, step, whole(part.moe, step))
