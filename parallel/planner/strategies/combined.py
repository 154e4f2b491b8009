"""The schedule that contains the others: every variant, every degree, the best order.

For every way in which tokens can travel, on both links at once and with layers one after the other:
the best degree and order of each direction's chains (`best_order`, to a thousandth), the
gradients where they fit (`fill`). In the backward pass the order that leaves the slow link idle
longest may beat the fastest one, so both are carried through to the end. Then parts of a batch
across layers are tried: two halves in their best order, more parts in a simple one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from parallel.planner.block import Block, block_of
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.exact_shop import best_order
from parallel.planner.layerwise import assemble, dispatched_first, gradients_hidden
from parallel.planner.problem import Problem
from parallel.planner.shop import Order, Stage, lower_bound
from parallel.planner.step import Pass, Step, Work, stages_of
from parallel.planner.strategies import many_parts, mast

# Partial schedules that the searches for orders may keep, one of them and all together.
NUM_LABELS_MAX, NUM_LABELS_TOTAL = 500, 4_000
# Gains below a thousandth are not searched for: no cost is known that well.
GAP = 1e-3


class Effort:
    """What the searches may still spend; the most promising chains come first."""

    def __init__(self, num_labels: int = NUM_LABELS_TOTAL):
        """Start with `num_labels`."""
        self.num_labels = num_labels

    def search(self, stages: Sequence[Stage], degree: int) -> Order:
        """The best order that the effort left allows for."""
        most = min(NUM_LABELS_MAX, self.num_labels)
        found = best_order(stages, degree, num_labels_max=most, gap=GAP)
        self.num_labels -= found.num_labels
        return found.order


def propose(problem: Problem) -> Candidate:
    """The fastest schedule of all."""
    bounds = {variant: bound_s(problem, variant) for variant in problem.variants}
    found: list[Candidate] = []
    effort = Effort()
    for variant in sorted(bounds, key=lambda variant: (bounds[variant], variant)):
        limit = min((candidate.seconds for candidate in found), default=float("inf"))
        if bounds[variant] < limit * (1 - GAP):
            found.append(layer_by_layer(problem, variant, limit, effort))
    found += _across(problem)
    best = min(found, key=lambda candidate: candidate.seconds)
    return replace(best, reason=_reason(best))


def _across(problem: Problem) -> list[Candidate]:
    """Schedules whose layers overlap: the best number of parts, and two halves, exactly."""
    choices = many_parts.choices(problem)
    if not choices:
        return []
    halves = next(choice for choice in choices if choice.num_parts == 2)
    step = problem.step(choices[0].variant)
    return [
        many_parts.carry_out(step, choices[0], "combined"),
        replace(mast.two_halves(problem, halves.variant), strategy="combined"),
    ]


def bound_s(problem: Problem, variant: Variant) -> float:
    """Seconds that no schedule of a variant beats whose layers do not overlap."""
    step = problem.step(variant)
    return step.num_layers * sum(
        min(_bound(works, degree) for degree in problem.degrees)
        for part in step.passes.values()
        for works in (part.dense, part.moe)
    )


def layer_by_layer(problem: Problem, variant: Variant, limit: float, effort: Effort) -> Candidate:
    """The fastest schedule of a variant whose layers do not overlap.

    Args:
        problem: what is scheduled.
        variant: how tokens travel.
        limit: seconds of a step; slower schedules need not be looked at to their end.
        effort: for orders.
    """
    step = problem.step(variant)
    forward = fastest(step.forward, step, problem.degrees, effort)
    if step.backward is None:
        return assemble("combined", step, forward, None, variant=variant)
    limit = limit / step.num_layers - forward.seconds
    candidates = (
        assemble(
            "combined",
            step,
            forward,
            backward,
            variant=variant,
            filling=gradients_hidden(step, backward),
        )
        for backward in promising(step.backward, step, problem.degrees, limit, effort)
    )
    return min(candidates, key=lambda candidate: candidate.seconds)


def fastest(part: Pass, step: Step, degrees: Sequence[int], effort: Effort) -> PassPlan:
    """A direction on its own: the best degree and order of each chain."""
    dense = _fastest_block(part.dense, step, degrees, effort)
    return PassPlan((dense, _fastest_block(part.moe, step, degrees, effort)))


def promising(
    part: Pass, step: Step, degrees: Sequence[int], limit: float, effort: Effort
) -> Iterator[PassPlan]:
    """Backward passes that may be the best, whatever the gradients do; at least one.

    A mixture with an exchange beside it takes max(seconds, exchange + rest) seconds. Dispatches
    first has the least rest of all orders, and `best_order` the least seconds. No order in between
    was ever found to be better than both (tests/parallel/planner/families.py, `fsmoe_exchange`).

    Args:
        part: the backward pass.
        step: that it belongs to.
        degrees: to try.
        limit: seconds of a layer; slower passes need not be looked at.
        effort: for orders.
    """
    dense = _fastest_block(part.dense, step, degrees, effort)
    # Exposed gradients cost a layer at most this much, so a slower degree cannot win by them.
    hidden_s = step.all_reduce(step.gradient_nbytes) if step.gradient_nbytes else 0.0
    fastest_s = float("inf")
    for degree in sorted(degrees, key=lambda degree: (_bound(part.moe, degree), degree)):
        bound = _bound(part.moe, degree)
        too_slow = bound > (fastest_s + hidden_s) * (1 - GAP) or bound + dense.seconds > limit
        if too_slow and fastest_s < float("inf"):
            return
        for block in _both_orders(part.moe, degree, step, effort):
            fastest_s = min(fastest_s, block.seconds)
            yield PassPlan((block, dense))


def _bound(works: Sequence[Work], degree: int) -> float:
    return lower_bound(stages_of(works, degree), degree)


def _fastest_block(
    works: Sequence[Work], step: Step, degrees: Sequence[int], effort: Effort
) -> Block:
    best: Block | None = None
    # One stage gains nothing from being cut.
    degrees = degrees if len(stages_of(works, 1)) > 1 else [1]
    for degree in sorted(degrees, key=lambda degree: (_bound(works, degree), degree)):
        # Contention makes everything slower, so the bound stands there as well.
        if best and _bound(works, degree) >= best.seconds * (1 - GAP):
            break
        for block in _both_orders(works, degree, step, effort):
            if best is None or block.seconds < best.seconds:
                best = block
    assert best is not None, "there is a degree to try"
    return best


def _both_orders(works: Sequence[Work], degree: int, step: Step, effort: Effort) -> Iterator[Block]:
    yield dispatched_first(works, degree, step)
    if degree > 1:
        stages = stages_of(works, degree)
        yield block_of(stages, degree, effort.search(stages, degree), step.contention)


def _reason(candidate: Candidate) -> str:
    variant = candidate.variant
    words = [f"{variant.levels} levels"] if variant.levels else []
    words += [variant.split] if variant.split else []
    words += ["compressed"] if variant.compressed else []
    words += [candidate.reason] if candidate.across else []
    if candidate.forward is not None:
        words.append(f"r={candidate.forward.mixture.num_chunks}")
    if candidate.backward is not None:
        words.append(f"backward r={candidate.backward.mixture.num_chunks}")
    return ", ".join(words)
