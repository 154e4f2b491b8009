"""What a schedule is made of: tasks on named resources, and what became of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Task(NamedTuple):
    """Something that occupies one resource without a break.

    Attributes:
        name: shown in pictures.
        resource: where it runs: "compute", "inter", "intra", or any other name.
        seconds: that it takes alone.
        after: indices of the tasks that must have ended.
        priority: the smallest goes first; ties go by index.
    """

    name: str
    resource: str
    seconds: float
    after: tuple[int, ...] = ()
    priority: float = 0.0


class Span(NamedTuple):
    """A task that has run."""

    name: str
    resource: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """Spans in the order of their tasks.

    Attributes:
        spans: one for each task.
    """

    spans: tuple[Span, ...]

    @property
    def makespan_s(self) -> float:
        """When the last task ends."""
        return max((span.end_s for span in self.spans), default=0.0)

    @property
    def resources(self) -> tuple[str, ...]:
        """In the order in which tasks name them first."""
        return tuple(dict.fromkeys(span.resource for span in self.spans))

    def busy_s(self, resource: str) -> float:
        """Seconds in which `resource` has a task."""
        return sum(span.end_s - span.start_s for span in self.spans if span.resource == resource)

    def gaps(self, resource: str) -> list[tuple[float, float]]:
        """Starts and ends of the times before the makespan in which `resource` is idle."""
        found, free_s = [], 0.0
        for span in sorted(
            (span for span in self.spans if span.resource == resource),
            key=lambda span: span.start_s,
        ):
            if span.start_s > free_s:
                found.append((free_s, span.start_s))
            free_s = span.end_s
        if free_s < self.makespan_s:
            found.append((free_s, self.makespan_s))
        return found

    def chrome_trace(self) -> str:
        """JSON for chrome://tracing or Perfetto: a row for each resource, in microseconds."""
        rows = {resource: row for row, resource in enumerate(self.resources)}
        events: list[dict] = [
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": resource}}
            for resource, row in rows.items()
        ]
        events += [
            {
                "name": span.name,
                "ph": "X",
                "pid": 0,
                "tid": rows[span.resource],
                "ts": span.start_s * 1e6,
                "dur": (span.end_s - span.start_s) * 1e6,
            }
            for span in self.spans
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def check_tasks(tasks: Sequence[Task]) -> str:
    """What is wrong with `tasks`, or nothing."""
    for i, task in enumerate(tasks):
        if not task.seconds >= 0:
            return f"task {i} ({task.name}) takes {task.seconds} s"
        for j in task.after:
            if not 0 <= j < len(tasks) or j == i:
                return f"task {i} ({task.name}) waits for task {j}"
    return ""
