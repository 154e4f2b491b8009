"""FinDEP: attention and experts on devices of their own, in a pipeline of parts of micro-batches.

Attention devices hold attention and shared experts, expert devices hold the others. A batch is cut
into r1 micro-batches; their tokens travel to the experts and back in r2 parts. Per micro-batch and
layer, attention takes t_a and shared experts t_s; per part the experts take t_e and either way t_c.
Attention devices work either micro-batch by micro-batch, attention and shared experts of each
(ASAS), or all attentions first, then all shared experts (AASS). A micro-batch starts its next layer
when its shared experts and all its parts are back.

The paper bounds the time in closed form and searches r1, r2 and the order; here every choice is
timed by the recurrence of the pipeline itself, which holds for any sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pallas_kernels import ArgumentError
from parallel.planner.task import Task

Sequencing = Literal["ASAS", "AASS"]


@dataclass(frozen=True)
class Times:
    """Seconds of the pieces.

    Attributes:
        attention: of a micro-batch.
        shared: of its shared experts; 0 when there are none.
        experts: of a part.
        transfer: of a part, either way.
    """

    attention: float
    shared: float
    experts: float
    transfer: float


@dataclass(frozen=True)
class Depth:
    """How deep the pipeline is.

    Attributes:
        num_micro: r1, micro-batches.
        num_parts: r2, parts of each.
        sequencing: "ASAS" or "AASS".
    """

    num_micro: int
    num_parts: int
    sequencing: Sequencing

    def __post_init__(self):
        if self.num_micro < 1 or self.num_parts < 1 or self.sequencing not in ("ASAS", "AASS"):
            raise ArgumentError("depths are at least 1, sequencing is ASAS or AASS", got=self)


def pipeline_s(times: Times, depth: Depth, num_layers: int) -> float:
    """Seconds of a batch through all layers.

    Args:
        times: of the pieces at this depth.
        depth: of the pipeline.
        num_layers: at least 1.
    """
    busy = there = experts = back = 0.0
    done = [0.0] * depth.num_micro
    for _ in range(num_layers):
        attended, shared_end = [], [0.0] * depth.num_micro
        for i in range(depth.num_micro):
            busy = max(busy, done[i]) + times.attention
            attended.append(busy)
            if depth.sequencing == "ASAS":
                busy += times.shared
                shared_end[i] = busy
        if depth.sequencing == "AASS":
            for i in range(depth.num_micro):
                busy += times.shared
                shared_end[i] = busy
        for i, start in enumerate(attended):
            there = max(there, start)
            for _ in range(depth.num_parts):
                there += times.transfer
                experts = max(experts, there) + times.experts
                back = max(back, experts) + times.transfer
            done[i] = max(back, shared_end[i])
    return max(done)


def paper_s(times: Times, depth: Depth, num_layers: int) -> float:
    """Seconds by the paper's closed form, its equation 13.

    Args:
        times: of the pieces at this depth.
        depth: of the pipeline.
        num_layers: at least 1.
    """
    x = times.attention + times.shared
    y = max(times.experts, times.transfer)
    stage = max(x, depth.num_parts * y)
    round_trip = times.attention + 2 * times.transfer + times.experts + (depth.num_parts - 1) * y
    period = max(round_trip, depth.num_micro * stage)
    return (num_layers - 1) * period + max(x, round_trip) + (depth.num_micro - 1) * stage


def tasks_of(times: Times, depth: Depth, num_layers: int) -> list[Task]:
    """The task graph, for the simulator with `in_order`.

    Args:
        times: of the pieces at this depth.
        depth: of the pipeline.
        num_layers: at least 1.
    """
    tasks: list[Task] = []
    done: list[tuple[int, ...]] = [()] * depth.num_micro

    def add(name: str, resource: str, seconds: float, after: tuple[int, ...]) -> int:
        tasks.append(Task(name, resource, seconds, after, len(tasks)))
        return len(tasks) - 1

    for layer in range(num_layers):
        attended, shared = [0] * depth.num_micro, [0] * depth.num_micro
        micros = range(depth.num_micro)
        for i in micros:
            attended[i] = add(f"attention {layer}.{i}", "attention", times.attention, done[i])
            if depth.sequencing == "ASAS":
                shared[i] = add(f"shared {layer}.{i}", "attention", times.shared, (attended[i],))
        if depth.sequencing == "AASS":
            for i in micros:
                shared[i] = add(f"shared {layer}.{i}", "attention", times.shared, (attended[i],))
        for i in micros:
            ends = []
            for part in range(depth.num_parts):
                label = f"{layer}.{i}.{part}"
                there = add(f"there {label}", "there", times.transfer, (attended[i],))
                worked = add(f"experts {label}", "experts", times.experts, (there,))
                ends.append(add(f"back {label}", "back", times.transfer, (worked,)))
            done[i] = (shared[i], *ends)
    return tasks


def depths(num_micro_max: int, num_parts_max: int) -> Sequence[Depth]:
    """Every depth up to the given ones."""
    return [
        Depth(num_micro, num_parts, sequencing)
        for num_micro in range(1, num_micro_max + 1)
        for num_parts in range(1, num_parts_max + 1)
        for sequencing in ("ASAS", "AASS")
    ]
