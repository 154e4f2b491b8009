"""A workload and a machine, with the steps that strategies ask for."""

from dataclasses import dataclass, field

from parallel.planner.build import Variant, build, variants
from parallel.planner.candidate import Candidate
from parallel.planner.machine import Machine
from parallel.planner.step import Step
from parallel.planner.workload import Workload

# More chunks than this only add starting times on every machine seen.
NUM_CHUNKS_MAX = 16


@dataclass(frozen=True)
class Problem:
    """What a strategy is given.

    Attributes:
        workload: what shall be planned.
        machine: what it runs on.
        num_chunks_max: the highest degree to try.
        halves: schedules that took long to find and that two strategies want.
    """

    workload: Workload
    machine: Machine
    num_chunks_max: int = NUM_CHUNKS_MAX
    halves: dict[Variant, Candidate] = field(default_factory=dict, repr=False, compare=False)
    _steps: dict[Variant, Step] = field(default_factory=dict, repr=False, compare=False)

    @property
    def variants(self) -> list[Variant]:
        """Every way in which tokens can travel."""
        return variants(self.workload, self.machine)

    @property
    def degrees(self) -> range:
        """Numbers of chunks to try."""
        return range(1, min(self.num_chunks_max, self.workload.num_tokens) + 1)

    def step(self, variant: Variant) -> Step:
        """The step of a variant; built once."""
        if variant not in self._steps:
            self._steps[variant] = build(self.workload, self.machine, variant)
        return self._steps[variant]
