"""Identical chunks through a chain of stages: what every published MoE pipeline is.

A chunk passes the stages in order; each stage holds one resource; a resource may serve several
stages (dispatch and combine share a link). Since chunks are alike, the k-th chunk to finish a stage
may as well be the k-th to enter the next, so a schedule is a sequence of stage numbers: the k-th
time that stage s appears is chunk k. Every operation starts as early as its chunk and its
resource allow, resources serving operations in the order of the sequence.

A filler is an operation of its own on one resource, such as a piece of a gradient's all-reduce:
filler j has the stage number `len(stages) + j`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pallas_kernels import ArgumentError
from parallel.planner.task import Task


class Stage(NamedTuple):
    """One step of a chunk.

    Attributes:
        name: shown in pictures.
        resource: what it holds.
        seconds: for how long.
    """

    name: str
    resource: str
    seconds: float


Order = tuple[int, ...]


def run_order(stages: Sequence[Stage], order: Order, fillers: Sequence[Stage] = ()) -> float:
    """Seconds until everything in `order` has run."""
    return max((end for *_, end in operations(stages, order, fillers)), default=0.0)


def operations(
    stages: Sequence[Stage], order: Order, fillers: Sequence[Stage] = ()
) -> list[tuple[int, int, float, float]]:
    """Stage, chunk, start and end of every operation of `order`.

    Raises:
        ArgumentError: a chunk enters a stage before it has left the one before.
    """
    num_stages, everything = len(stages), [*stages, *fillers]
    free = {stage.resource: 0.0 for stage in everything}
    ends: list[list[float]] = [[] for _ in everything]
    found = []
    for s in order:
        chunk = len(ends[s])
        ready = 0.0
        if 0 < s < num_stages:
            if chunk >= len(ends[s - 1]):
                raise ArgumentError(
                    "a chunk must leave a stage before it enters the next",
                    got=f"chunk {chunk} at stage {s}",
                )
            ready = ends[s - 1][chunk]
        _, resource, seconds = everything[s]
        start = max(ready, free[resource])
        end = start + seconds
        free[resource] = end
        ends[s].append(end)
        found.append((s, chunk, start, end))
    return found


def stage_major(num_stages: int, num_chunks: int) -> Order:
    """All chunks through a stage before any enters the next: dispatches first, combines last."""
    return tuple(s for s in range(num_stages) for _ in range(num_chunks))


def chunk_major(num_stages: int, num_chunks: int) -> Order:
    """A chunk through all stages before the next one: no resource ever looks ahead."""
    return tuple(range(num_stages)) * num_chunks


def greedy(stages: Sequence[Stage], num_chunks: int, *, late_first: bool) -> Order:
    """The order of a work-conserving scheduler: whatever can start first, starts.

    Args:
        stages: of a chunk.
        num_chunks: how many.
        late_first: of operations that can start together, whether the latest stage or the
            earliest goes first.
    """
    num_stages = len(stages)
    free = {stage.resource: 0.0 for stage in stages}
    passed, ready = [0] * num_chunks, [0.0] * num_chunks
    order = []
    for _ in range(num_stages * num_chunks):
        best = (float("inf"), 0, 0)
        for chunk, s in enumerate(passed):
            # Chunks do not overtake: the one before must have entered this stage.
            if s == num_stages or (chunk and passed[chunk - 1] <= s):
                continue
            start = max(ready[chunk], free[stages[s].resource])
            best = min(best, (start, -s if late_first else s, chunk))
        start, _, chunk = best
        stage = stages[passed[chunk]]
        order.append(passed[chunk])
        passed[chunk] += 1
        ready[chunk] = free[stage.resource] = start + stage.seconds
    return tuple(order)


def lower_bound(stages: Sequence[Stage], num_chunks: int, fillers: Sequence[Stage] = ()) -> float:
    """Seconds that no schedule beats.

    A resource works through all it has to do; before that the shortest way to one of its stages
    must be gone, and after it the shortest way out.
    """
    bound = sum(stage.seconds for stage in stages) if num_chunks else 0.0
    for resource in {stage.resource for stage in [*stages, *fillers]}:
        mine = [s for s, stage in enumerate(stages) if stage.resource == resource]
        work = num_chunks * sum(stages[s].seconds for s in mine)
        extra = sum(filler.seconds for filler in fillers if filler.resource == resource)
        head = tail = 0.0
        # A filler may come first or last, and then nobody waits.
        if mine and not extra:
            head = sum(stage.seconds for stage in stages[: mine[0]])
            tail = sum(stage.seconds for stage in stages[mine[-1] + 1 :])
        bound = max(bound, head + work + extra + tail)
    return bound


def tasks_of(
    stages: Sequence[Stage],
    order: Order,
    fillers: Sequence[Stage] = (),
    *,
    base: int = 0,
    after: tuple[int, ...] = (),
) -> list[Task]:
    """The task graph of an order, for the simulator with `in_order`.

    Args:
        stages: of a chunk.
        order: from this module.
        fillers: as in the order.
        base: index of the first task, where others come before; also the first priority.
        after: tasks that must have ended before any of these starts.
    """
    num_stages, everything = len(stages), [*stages, *fillers]
    places: list[list[int]] = [[] for _ in everything]
    tasks = []
    for position, s in enumerate(order):
        chunk = len(places[s])
        waits = (places[s - 1][chunk],) if 0 < s < num_stages else after
        name, resource, seconds = everything[s]
        label = f"{name} {chunk}" if s < num_stages else name
        tasks.append(Task(label, resource, seconds, waits, base + position))
        places[s].append(base + position)
    return tasks
