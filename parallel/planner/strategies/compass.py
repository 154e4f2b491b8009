"""Compass: cut a collective and its matrix product into chunks, or let a ring feed the product.

InterDecom: r chunks of c seconds on the link and g on the device, one after the other:
t(r) = c + (r - 1) max(c, g) + g = max(r c + g, c + r g), both convex in r, so that the best whole
number stands next to sqrt(n_g / a_c), sqrt(n_c / a_g) or to where c = g.

IntraFusion: in a ring of P devices the part that arrives is multiplied while the next one travels:
P products and P - 1 transfers. A double ring sends half of each part either way, over two different
links if there are two, so that the share of each is in proportion to its speed.

The abstract is all that was at hand: formulas are derived from the schedules.
"""

from collections.abc import Sequence
from math import ceil, floor, sqrt

from parallel.planner.block import Block
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.cost import Line
from parallel.planner.layerwise import assemble, dispatched_first, whole
from parallel.planner.problem import Problem
from parallel.planner.step import Pass, Step, Work


def decomposed_s(link: Line, sent: float, product: Line, work: float, degree: int) -> float:
    """Seconds of a collective and a product in `degree` chunks.

    Args:
        link: cost of the collective.
        sent: its amount, all chunks together.
        product: cost of the product.
        work: its amount, all chunks together.
        degree: number of chunks, at least 1.
    """
    c, g = link(sent / degree), product(work / degree)
    return max(degree * c + g, c + degree * g)


def best_degree(link: Line, sent: float, product: Line, work: float, *, degree_max: int) -> int:
    """The degree that takes the least time; the smallest of those that do.

    Args:
        link: cost of the collective.
        sent: its amount.
        product: cost of the product.
        work: its amount.
        degree_max: the highest degree allowed.
    """
    sent_s, work_s = link.s_per_unit * sent, product.s_per_unit * work
    real = {1.0, float(degree_max)}
    if link.alpha_s > 0:
        real.add(sqrt(work_s / link.alpha_s))  # the lowest point of r c + g
    if product.alpha_s > 0:
        real.add(sqrt(sent_s / product.alpha_s))  # the lowest point of c + r g
    if link.alpha_s != product.alpha_s:
        real.add((work_s - sent_s) / (link.alpha_s - product.alpha_s))  # c = g
    near = {whole for x in real if 0 < x < 1e9 for whole in (floor(x), ceil(x))}
    allowed = sorted({min(max(x, 1), degree_max) for x in near})
    return min(allowed, key=lambda r: decomposed_s(link, sent, product, work, r))


def ring_s(links: Sequence[Line], sent: float, product: Line, work: float, num_ranks: int) -> float:
    """Seconds of an all-gather in a ring that feeds a product part by part.

    Args:
        links: one for a ring, two for a double ring: cost of sending over each; a part is
            divided so that both end together.
        sent: bytes of the gathered operand, all parts together.
        product: cost of the product.
        work: its amount, all parts together.
        num_ranks: P.
    """
    hop, part = divided_s(links, sent / num_ranks), product(work / num_ranks)
    return part + (num_ranks - 1) * max(hop, part)


def divided_s(links: Sequence[Line], nbytes: float) -> float:
    """Seconds to send `nbytes` over one link, or over two so that both end together."""
    if len(links) == 1:
        return links[0](nbytes)
    one, other = links
    alone = min(one(nbytes), other(nbytes))
    speed = one.s_per_unit + other.s_per_unit
    if speed == 0:
        return alone
    # one.alpha + one.s * x = other.alpha + other.s * (nbytes - x)
    x = (other.alpha_s - one.alpha_s + other.s_per_unit * nbytes) / speed
    return min(alone, one(x)) if 0 < x < nbytes else alone


def propose(problem: Problem) -> Candidate | None:
    """Attention in chunks between its collectives; nothing to say where it has none."""
    step = problem.step(Variant())
    if len(step.forward.dense) == 1:
        return None
    forward = _direction(step.forward, step, problem.degrees)
    backward = None
    if step.backward is not None:
        backward = _direction(step.backward, step, problem.degrees)
    degree = next(b.num_chunks for b in forward.blocks if b.name == "attention")
    reason = f"attention in {degree}"
    return assemble("compass", step, forward, backward, variant=Variant(), reason=reason)


def decomposed(works: Sequence[Work], step: Step, degrees: Sequence[int]) -> Block:
    """A chain in the fastest degree, the order being that of its stages."""
    blocks = [dispatched_first(works, degree, step) for degree in degrees]
    return min(blocks, key=lambda block: block.seconds)


def _direction(part: Pass, step: Step, degrees: Sequence[int]) -> PassPlan:
    dense, moe = decomposed(part.dense, step, degrees), whole(part.moe, step)
    return PassPlan((moe, dense) if part is step.backward else (dense, moe))
