"""Brute force, written to be read: every order of every operation, no bounds, no dominance."""

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, pairwise

import numpy as np

from parallel.planner.cost import Line
from parallel.planner.shop import Stage
from parallel.planner.simulate import simulate
from parallel.planner.strategies.contention import Pair
from parallel.planner.strategies.findep import Depth, Times, tasks_of
from parallel.planner.windows import Window


def every_makespan(
    chains: Sequence[Sequence[tuple[str, float]]], free: dict[str, float] | None = None
) -> Iterator[float]:
    """Makespans of all schedules in which no operation could start earlier without another moving.

    Args:
        chains: of each job, in order, resource and seconds. No two jobs are taken to be alike.
    """
    places, ready = [0] * len(chains), [0.0] * len(chains)
    yield from _extend(chains, places, ready, dict(free or {}), 0.0)


def _extend(chains, places, ready, free, makespan) -> Iterator[float]:
    done = True
    for j, chain in enumerate(chains):
        if places[j] == len(chain):
            continue
        done = False
        resource, seconds = chain[places[j]]
        before = ready[j], free.get(resource, 0.0)
        end = max(before) + seconds
        places[j] += 1
        ready[j] = free[resource] = end
        yield from _extend(chains, places, ready, free, max(makespan, end))
        places[j] -= 1
        ready[j], free[resource] = before
    if done:
        yield makespan


def best_makespan(stages: Sequence[Stage], num_chunks: int, fillers: Sequence[Stage] = ()) -> float:
    """The least makespan of `num_chunks` chunks, none of them taken to be alike."""
    chunk = [(stage.resource, stage.seconds) for stage in stages]
    alone = [[(filler.resource, filler.seconds)] for filler in fillers]
    return min(every_makespan([chunk] * num_chunks + alone))


def whole(rng: np.random.Generator, high: int = 12) -> float:
    """A whole number of seconds: sums of them are exact, and can be compared for equality."""
    return float(rng.integers(0 if rng.random() < 0.1 else 1, high + 1))


def split_s(pair: Pair, num_pieces: int, held: int) -> float:
    """The contention model in its own words: everything up to the launch, then what is left."""
    piece_s = pair.launch_s + pair.product_s / num_pieces
    boundaries = [i * piece_s for i in range(held + 1)]
    # The collective starts at the first boundary at which it is ready; a held piece makes one.
    later = [time for time in boundaries if time >= pair.ready_s]
    if later:
        start = pair.ready_s if later[0] == 0 else later[0]
        num_gone = boundaries.index(later[0])
    else:
        start, num_gone = pair.ready_s, held
    left = (num_pieces - num_gone) * piece_s
    beside = left * pair.factor
    if beside <= pair.collective_s:
        return start + pair.collective_s
    return start + pair.collective_s + left - pair.collective_s / pair.factor


def findep_s(times: Times, depth: Depth, num_layers: int) -> float:
    """FinDEP's pipeline by the simulator."""
    return simulate(tasks_of(times, depth, num_layers), in_order=True).makespan_s


def every_run(num: int, period: int) -> Iterator[list[range]]:
    """All ways to cut `num` layers into `period` runs, empty ones too."""
    for cuts in combinations_with_replacement(range(num + 1), period - 1):
        bounds = [0, *cuts, num]
        yield [range(a, b) for a, b in pairwise(bounds)]


def fullest_groups(routing: np.ndarray, group_sizes: Sequence[int], *, num_experts: int):
    """For each number of groups: tokens that have an expert in the fullest one; token by token."""
    for num_groups in group_sizes:
        counts = [0] * num_groups
        for token in routing:
            for group in {int(e) * num_groups // num_experts for e in token}:
                counts[group] += 1
        yield max(counts)


def hierarchical_s(nbytes, flat, inter, intra) -> list[float]:
    """HierMoE on 8 devices in 4 pairs in 2 halves, each number of levels written out."""
    half, pair, device = nbytes
    return [
        flat(8 * device),
        inter[0](2 * half) + intra[0](4 * device),
        inter[0](2 * half) + inter[1](2 * pair) + intra[1](2 * device),
    ]


def least_exposed_s(windows: Sequence[Window], cost: Line) -> float:
    """Every division of whole bytes into windows."""
    total = int(sum(window.produced for window in windows))
    best = {0: 0.0}  # bytes sent: least seconds exposed
    known = 0
    for window in windows:
        known += int(window.produced)
        following: dict[int, float] = {}
        for sent, seconds in best.items():
            for more in range(known - sent + 1):
                exposed = seconds + max(0.0, cost(more) - window.idle_s)
                following[sent + more] = min(following.get(sent + more, exposed), exposed)
        best = following
    return best[total]
