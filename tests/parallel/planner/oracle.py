"""Brute force, written to be read: every order of every operation, no bounds, no dominance."""

from collections.abc import Iterator, Sequence

import numpy as np

from parallel.planner.shop import Stage


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
