"""How many groups of experts a token reaches when its experts are drawn at random.

The closed form behind HierMoE's table of duplicates: routing needs no skew for tokens to be sent
twice to one group.
"""

from math import comb

from pallas_kernels import ArgumentError


def num_groups_reached(*, num_groups: int, num_experts: int, num_selected: int) -> float:
    """Expected number of groups among which a token's experts lie.

    A group of E / R experts is missed with probability C(E - E/R, k) / C(E, k).

    Args:
        num_groups: R, divides E.
        num_experts: E.
        num_selected: k, different experts of one token.
    """
    if num_experts % num_groups:
        raise ArgumentError(f"num_groups must divide num_experts={num_experts}", got=num_groups)
    others = num_experts - num_experts // num_groups
    missed = comb(others, num_selected) / comb(num_experts, num_selected)
    return num_groups * (1 - missed)


def duplicate_share(*, num_groups: int, num_experts: int, num_selected: int) -> float:
    """Share of the copies that a group gets though it has the token already (HierMoE, table II)."""
    reached = num_groups_reached(
        num_groups=num_groups, num_experts=num_experts, num_selected=num_selected
    )
    return 1 - reached / num_selected
