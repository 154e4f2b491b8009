"""Parm: replicated tokens are split before the experts, in one of two schedules.

Tensor parallelism leaves the N devices of a node with the same tokens. S1 splits the tokens before
the gate: each device sends 1/N of them over the slow link, and the results are gathered within the
node at the end, T tokens. S2 lets every device gate all tokens and splits the k T copies: what is
gathered at the end are copies, but the gather of one part runs while the next is still exchanged
(SAA: simultaneous exchange and gather). Which one is faster depends on k and on the links; both are
priced and the faster one is taken. The formulas here are derived from the schedules: the paper's
own text was not at hand.
"""

from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.cost import Cost
from parallel.planner.layerwise import assemble, dispatched_first, in_turn, whole
from parallel.planner.problem import Problem
from parallel.planner.step import Pass, Step


def exchange_and_gather_s(
    exchange: Cost, num_sent: float, gather: Cost, num_gathered: float, num_parts: int
) -> float:
    """Seconds of SAA: parts pass the slow link one after the other and are gathered behind it.

    With seconds x and g of a part that is x + (P - 1) max(x, g) + g.

    Args:
        exchange: cost over the slow link.
        num_sent: its bytes, all parts together.
        gather: cost over the fast link.
        num_gathered: its bytes, all parts together.
        num_parts: P, at least 1; the paper has one for each rank of the exchange.
    """
    x, g = exchange(num_sent / num_parts), gather(num_gathered / num_parts)
    return x + (num_parts - 1) * max(x, g) + g


def propose(problem: Problem) -> Candidate | None:
    """The faster of both schedules; nothing to say where tokens are not replicated."""
    if problem.workload.layout != "replicated":
        return None
    candidates = [_of_split(problem, split) for split in ("S1", "S2")]
    return min(candidates, key=lambda candidate: candidate.seconds)


def _of_split(problem: Problem, split: str) -> Candidate:
    variant = Variant(split=split)
    step = problem.step(variant)
    num_parts = 1 if split == "S1" else problem.workload.num_inter
    forward = _direction(step.forward, step, num_parts)
    backward = None if step.backward is None else _direction(step.backward, step, num_parts)
    reason = f"{split}: tokens split over the node"
    return assemble("parm", step, forward, backward, variant=variant, reason=reason)


def _direction(part: Pass, step: Step, num_parts: int) -> PassPlan:
    """The mixture up to the experts' results, then combine and gather in parts."""
    end = next(i for i, work in enumerate(part.moe) if work.name == "combine")
    start = whole(part.moe[:end], step)
    return in_turn(part, step, start, dispatched_first(part.moe[end:], num_parts, step))
