"""A discrete-event simulator: tasks on resources, in priority order, slowing each other down.

Nothing is preempted and nothing is random. A resource works on one task at a time. Either it takes
the first *ready* task by priority, as a work-conserving scheduler does, or, `in_order`, it takes
its tasks in priority order and waits for the next one even when a later one is ready, as a GPU
stream.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from pallas_kernels import ArgumentError
from parallel.planner.task import Span, Task, Timeline, check_tasks

# Work below this share of a task is rounding, not work.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Contention:
    """A resource slows down while another one is busy: a collective takes multiprocessors.

    Attributes:
        slowed: the resource that suffers.
        while_busy: the resource that takes from it.
        factor: its tasks take so many times longer meanwhile, at least 1; several multiply.
    """

    slowed: str
    while_busy: str
    factor: float

    def __post_init__(self):
        if not self.factor >= 1:
            raise ArgumentError("the factor of a contention must be at least 1", got=self.factor)


def simulate(
    tasks: Sequence[Task], *, in_order: bool = False, contention: Iterable[Contention] = ()
) -> Timeline:
    """Run `tasks` and say when each one ran.

    Args:
        tasks: in any order; `after` counts them from 0.
        in_order: whether resources keep strictly to their priority order.
        contention: who slows whom down.

    Raises:
        ArgumentError: a task that cannot be meant, or tasks that wait for each other for ever.
    """
    if problem := check_tasks(tasks):
        raise ArgumentError("tasks need seconds >= 0 and must wait for other tasks", got=problem)
    return _Run(tasks, in_order, tuple(contention)).timeline()


class _Run:
    """The state of one simulation."""

    def __init__(self, tasks: Sequence[Task], in_order: bool, contention: tuple[Contention, ...]):
        self.tasks = tasks
        self.contention = contention
        self.num_waits = [len(set(task.after)) for task in tasks]
        self.followers: list[list[int]] = [[] for _ in tasks]
        for i, task in enumerate(tasks):
            for j in set(task.after):
                self.followers[j].append(i)
        names = dict.fromkeys(task.resource for task in tasks)
        self.ready: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
        self.streams: dict[str, list[tuple[float, int]]] | None = None
        if in_order:
            self.streams = {name: [] for name in names}
            for i in sorted(range(len(tasks)), key=lambda i: (-tasks[i].priority, -i)):
                self.streams[tasks[i].resource].append((tasks[i].priority, i))
        self.running: dict[str, tuple[int, float]] = {}  # resource: task, seconds of work left
        self.starts = [0.0] * len(tasks)
        self.ends = [0.0] * len(tasks)

    def timeline(self) -> Timeline:
        for i, num in enumerate(self.num_waits):
            if num == 0:
                self._set_ready(i)
        now_s, num_done = 0.0, 0
        while num_done < len(self.tasks):
            self._start(now_s)
            if not self.running:
                stuck = [
                    task.name for task, num in zip(self.tasks, self.num_waits, strict=True) if num
                ]
                raise ArgumentError(
                    "tasks must not wait for each other in a circle, nor be queued behind their "
                    "followers",
                    got=", ".join(stuck[:5]),
                )
            now_s, num_ended = self._advance(now_s)
            num_done += num_ended
        spans = (
            Span(task.name, task.resource, start, end)
            for task, start, end in zip(self.tasks, self.starts, self.ends, strict=True)
        )
        return Timeline(tuple(spans))

    def _set_ready(self, i: int) -> None:
        heappush(self.ready[self.tasks[i].resource], (self.tasks[i].priority, i))

    def _start(self, now_s: float) -> None:
        """Give every idle resource its next task, if there is one."""
        for resource, ready in self.ready.items():
            if resource in self.running or not ready:
                continue
            if self.streams is not None:
                stream = self.streams[resource]
                # The head of a stream is its smallest, so it can only be the head of the heap.
                if ready[0] != stream[-1]:
                    continue
                stream.pop()
            _, i = heappop(ready)
            self.starts[i] = now_s
            self.running[resource] = (i, self.tasks[i].seconds)

    def _advance(self, now_s: float) -> tuple[float, int]:
        """Work until the next task ends; give the time and how many ended."""
        slowness = {resource: self._slowness(resource) for resource in self.running}
        step_s = min(left * slowness[resource] for resource, (_, left) in self.running.items())
        ended = []
        for resource, (i, left) in list(self.running.items()):
            left -= step_s / slowness[resource]
            if left <= _ROUNDING * self.tasks[i].seconds:
                ended.append((i, resource))
            else:
                self.running[resource] = (i, left)
        for i, resource in ended:
            del self.running[resource]
            self.ends[i] = now_s + step_s
            for j in self.followers[i]:
                self.num_waits[j] -= 1
                if self.num_waits[j] == 0:
                    self._set_ready(j)
        return now_s + step_s, len(ended)

    def _slowness(self, resource: str) -> float:
        factor = 1.0
        for entry in self.contention:
            if entry.slowed == resource and entry.while_busy in self.running:
                factor *= entry.factor
        return factor
