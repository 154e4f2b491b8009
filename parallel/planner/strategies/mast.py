"""Mast: two halves of a batch through attention and mixtures of all layers, one beside the other.

For two halves the best order is found exactly (`two_chains`), over as many layers at once as make
`NUM_STAGES_MAX` stages; the orders of such runs of layers are then put one behind the other, and
flow into each other. The paper's own order is near-optimal by its abstract, which is all that
was at hand.
"""

from collections.abc import Sequence

from parallel.planner.across import across_layers, layer_chain
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate
from parallel.planner.problem import Problem
from parallel.planner.shop import Order, Stage
from parallel.planner.two_chains import best_of_two

# Stages planned at once; the search takes time with the square.
NUM_STAGES_MAX = 160


def propose(problem: Problem) -> Candidate | None:
    """Two halves; nothing to say where there is only one token."""
    if problem.workload.num_tokens < 2:
        return None
    return two_halves(problem, Variant())


def two_halves(problem: Problem, variant: Variant) -> Candidate:
    """Two halves, tokens travelling as `variant` says; searched for once in a problem."""
    if variant not in problem.halves:
        step = problem.step(variant)
        problem.halves[variant] = across_layers(
            "mast",
            step,
            variant,
            num_parts=2,
            orders=[
                best_across(layer_chain(part, step, 2), step.num_layers)
                for part in step.passes.values()
            ],
            reason="two halves across layers",
        )
    return problem.halves[variant]


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
