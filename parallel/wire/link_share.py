"""Bytes that one device sends per byte of its operand, for each collective.

Figures are those of the best known algorithms (ring or direct exchange) and a lower bound for
every other; they are averages over the devices of the axis.
"""

from collections.abc import Sequence


def gather_share(num_ranks: int) -> float:
    """Each device's operand reaches P - 1 others; a ring passes on what came, direct sends."""
    return num_ranks - 1


def exchange_share(num_ranks: int) -> float:
    """A device keeps one part of P; also reduce-scatter on a ring."""
    return (num_ranks - 1) / num_ranks


def reduce_share(num_ranks: int) -> float:
    """A reduce-scatter and an all-gather of the parts."""
    return 2 * exchange_share(num_ranks)


def permute_share(num_ranks: int, perm: Sequence[tuple[int, int]]) -> float:
    """A pair from a rank to itself sends nothing."""
    return sum(source != destination for source, destination in perm) / num_ranks
