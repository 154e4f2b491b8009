"""Parm: replicated tokens are split before the experts, in one of two schedules.

Tensor parallelism leaves the N devices of a node with the same tokens. S1 splits the tokens before
the gate: each device sends 1/N of them over the slow link, and the results are gathered within
the node at the end, T tokens. S2 lets every device gate all tokens and splits the k T copies: what is
gathered at the end are copies, but the gather of one part runs while the next is still exchanged
(SAA: simultaneous exchange and gather). Which one is faster depends on k and on the links; both are
priced and the faster one is taken. The formulas here are derived from the schedules: the paper's
own text was not at hand.
"""

from collections.abc import Sequence

from parallel.planner.block import Block
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.cost import Cost
from parallel.planner.layerwise import assemble, dispatched_first, in_turn, whole
from parallel.planner.problem import Problem
from parallel.planner.step import Pass, Step, Work


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


def chains(problem: Problem, part: Pass) -> dict[str, tuple[tuple[Work, ...], tuple[Work, ...]]]:
    """For each schedule the chain up to the experts' results, and what follows it.

    Args:
        problem: with layout "replicated".
        part: a direction of its plain step.
    """
    load, machine = problem.workload, problem.machine
    by_name = {work.name: work for work in part.moe}
    num_intra, copies_nbytes = load.num_intra, by_name["dispatch"].amount
    tokens_nbytes = load.num_tokens * load.width * load.element_nbytes
    share = copies_nbytes / num_intra
    gather = machine.intra.cost("all_gather", num_intra)
    scatter = machine.intra.cost("reduce_scatter", num_intra)
    start = (
        by_name["dispatch"]._replace(amount=share),
        Work("gather", "intra", gather, copies_nbytes),
        by_name["experts"],
        Work("scatter", "intra", scatter, copies_nbytes),
    )
    combine = by_name["combine"]._replace(amount=share)
    return {
        "S1": (start, (combine, Work("share", "intra", gather, tokens_nbytes))),
        "S2": (start, (combine, Work("share", "intra", gather, copies_nbytes))),
    }


def propose(problem: Problem) -> Candidate | None:
    """The faster of both schedules; nothing to say where tokens are not replicated."""
    if problem.workload.layout != "replicated":
        return None
    step = problem.step(Variant())
    forward, name = _direction(problem, step.forward, step)
    backward = None if step.backward is None else _direction(problem, step.backward, step)[0]
    return assemble(
        f"parm-{name.lower()}",
        step,
        forward,
        backward,
        variant=Variant(),
        reason=f"{name}: tokens split over the node",
    )


def _direction(problem: Problem, part: Pass, step: Step) -> tuple[PassPlan, str]:
    """The faster schedule and its name."""
    plans = {}
    for name, (start, end) in chains(problem, part).items():
        if name == "S1":
            plans[name] = in_turn(part, step, whole((*start, *end), step))
        else:
            plans[name] = in_turn(part, step, whole(start, step), _overlapped(problem, end, step))
    best = min(plans, key=lambda name: plans[name].seconds)
    return plans[best], best


def _overlapped(problem: Problem, end: Sequence[Work], step: Step) -> Block:
    """SAA: a part for each rank of the exchange."""
    return dispatched_first(end, problem.workload.num_inter, step)
