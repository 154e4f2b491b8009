"""HierMoE: how many levels of the network an exchange of tokens should know.

With d levels a token crosses levels 1 to d - 1 once for every group that it is meant for there, and
is spread within the groups of level d - 1. For U[i] groups at level i (U[0] = 1) of G devices and
p(i) tokens sent to the fullest group of level i:

    t(1) = a + b G p(G)
    t(d) = sum over i < d of (a_i + b_i U[i]/U[i-1] p(i)) + a'_{d-1} + b'_{d-1} G/U[d-1] p(G)

where p counts bytes here. The number of levels is the smallest with the least time.
"""

from collections.abc import Sequence

from pallas_kernels import ArgumentError
from parallel.planner.candidate import Candidate
from parallel.planner.cost import Line
from parallel.planner.problem import Problem
from parallel.planner.routing_stats import num_groups_reached
from parallel.planner.strategies import sequential


def exchange_s(
    *,
    num_levels: int,
    group_sizes: Sequence[int],
    nbytes: Sequence[float],
    flat: Line,
    inter: Sequence[Line],
    intra: Sequence[Line],
) -> float:
    """Seconds of one dispatch that knows `num_levels` levels.

    Args:
        num_levels: d, from 1 to the number of entries in `group_sizes`.
        group_sizes: U[1], U[2], ..., the last is G, the number of devices.
        nbytes: bytes that one device sends to the fullest group of each level.
        flat: cost of an exchange between all devices.
        inter: cost of the exchange between groups at each level.
        intra: cost of the exchange within the groups of each level.
    """
    num_devices = group_sizes[-1]
    if not 1 <= num_levels <= len(group_sizes):
        raise ArgumentError(f"num_levels must be 1 to {len(group_sizes)}", got=num_levels)
    if num_levels == 1:
        return flat(num_devices * nbytes[-1])
    seconds, groups_above = 0.0, 1
    for i in range(num_levels - 1):
        seconds += inter[i](group_sizes[i] / groups_above * nbytes[i])
        groups_above = group_sizes[i]
    return seconds + intra[num_levels - 2](num_devices / groups_above * nbytes[-1])


def best_num_levels(
    *,
    group_sizes: Sequence[int],
    nbytes: Sequence[float],
    flat: Line,
    inter: Sequence[Line],
    intra: Sequence[Line],
) -> int:
    """The number of levels that takes the least time; the smallest of those that do.

    Args:
        group_sizes: as for `exchange_s`.
        nbytes: as for `exchange_s`.
        flat: as for `exchange_s`.
        inter: as for `exchange_s`.
        intra: as for `exchange_s`.
    """

    def seconds(num_levels: int) -> float:
        return exchange_s(
            num_levels=num_levels,
            group_sizes=group_sizes,
            nbytes=nbytes,
            flat=flat,
            inter=inter,
            intra=intra,
        )

    return min(range(1, len(inter) + 2), key=seconds)


def uniform_nbytes(
    *,
    group_sizes: Sequence[int],
    num_experts: int,
    num_selected: int,
    num_tokens: int,
    token_nbytes: float,
) -> list[float]:
    """Bytes to a group of each level when experts are drawn at random.

    Args:
        group_sizes: groups of each level, the last is the number of devices.
        num_experts: of the layer.
        num_selected: of a token.
        num_tokens: of a device.
        token_nbytes: of one token.
    """
    return [
        num_tokens
        * token_nbytes
        * num_groups_reached(num_groups=groups, num_experts=num_experts, num_selected=num_selected)
        / groups
        for groups in group_sizes
    ]


def propose(problem: Problem) -> Candidate | None:
    """The best number of levels, nothing overlapped; for experts spread over all devices."""
    if problem.workload.layout != "everywhere":
        return None
    candidates = [
        sequential.of_step(
            "hiermoe", problem.step(variant), variant, reason=f"{variant.levels} levels"
        )
        for variant in problem.variants
        if not variant.compressed
    ]
    return min(candidates, key=lambda candidate: candidate.seconds)
