"""The plan of a step: what was chosen, what else there was, and why."""

from dataclasses import dataclass

from parallel.planner.candidate import Candidate
from parallel.planner.workload import Workload


@dataclass(frozen=True)
class Considered:
    """A candidate that was looked at.

    Attributes:
        strategy: its name.
        seconds: predicted for a step.
        reason: its parameters, for people.
    """

    strategy: str
    seconds: float
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The fastest schedule found for a workload on a machine.

    No candidate in `considered` is predicted to be faster than `chosen`: it is their minimum.

    Attributes:
        workload: what was planned.
        machine: name of the machine.
        chosen: the schedule.
        considered: all candidates, fastest first.
        bound_s: seconds that no schedule beats in which every device does attention and experts.
    """

    workload: Workload
    machine: str
    chosen: Candidate
    considered: tuple[Considered, ...]
    bound_s: float

    @property
    def seconds(self) -> float:
        """Predicted for a step."""
        return self.chosen.seconds

    def explain(self) -> str:
        """A table of the candidates for people, and the reason for the choice."""
        head = ("strategy", "predicted ms", "of sequential", "parameters")
        base = next((c.seconds for c in self.considered if c.strategy == "sequential"), None)
        rows = [head]
        for line in self.considered:
            share = f"{line.seconds / base:.3f}" if base else "-"
            rows.append((line.strategy, f"{line.seconds * 1e3:.3f}", share, line.reason))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join([name.ljust(widths[0]), ms.rjust(widths[1]), share.rjust(widths[2]), words])
            for name, ms, share, words in rows
        ]
        load = self.workload
        mesh = f"{load.num_inter}x{load.num_intra}"
        title = f"{load.num_layers} layers, {load.mode}, mesh {mesh} of machine {self.machine}"
        reason = f"Chosen: {self.chosen.strategy} ({self.chosen.reason}), the least predicted time."
        bound = f"The busiest resource alone needs {self.bound_s * 1e3:.3f} ms"
        bound += f", {self.bound_s / self.seconds:.1%} of that."
        return "\n".join([title, *lines, reason, bound])
