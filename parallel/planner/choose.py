"""`plan`: ask every strategy, take the fastest."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pallas_kernels import ArgumentError
from parallel.planner.bound import bound_s
from parallel.planner.candidate import Candidate
from parallel.planner.machine import Machine
from parallel.planner.plan import Considered, Plan
from parallel.planner.problem import NUM_CHUNKS_MAX, Problem
from parallel.planner.strategies import (
    combined,
    compass,
    disaggregated,
    fsmoe,
    hiermoe,
    mast,
    parm,
    pipemoe,
    schemoe,
    sequential,
    tutel,
)
from parallel.planner.workload import Workload

# Ties go to the simpler schedule, which stands first.
STRATEGIES: Mapping[str, Callable[[Problem], Candidate | None]] = MappingProxyType(
    {
        "sequential": sequential.propose,
        "hiermoe": hiermoe.propose,
        "compass": compass.propose,
        "parm": parm.propose,
        "tutel": tutel.propose,
        "pipemoe": pipemoe.propose,
        "lina": tutel.propose_lina,
        "schemoe": schemoe.propose,
        "fsmoe": fsmoe.propose,
        "mast": mast.propose,
        "findep": disaggregated.propose,
        "combined": combined.propose,
    }
)


def plan(workload: Workload, machine: Machine, *, num_chunks_max: int = NUM_CHUNKS_MAX) -> Plan:
    """Find the fastest schedule of a step.

    Every strategy is asked, and the one predicted to be fastest is taken, so that the plan is never
    predicted to be slower than any of them. The same arguments give the same plan.

    Args:
        workload: what shall be planned.
        machine: what it runs on.
        num_chunks_max: the highest degree to try, at least 1.

    Raises:
        ArgumentError: sizes that the mesh does not divide.
        UnsupportedError: figures that the machine does not have.
    """
    if num_chunks_max < 1:
        raise ArgumentError("num_chunks_max must be at least 1", got=num_chunks_max)
    problem = Problem(workload, machine, num_chunks_max)
    candidates = [
        candidate for propose in STRATEGIES.values() if (candidate := propose(problem)) is not None
    ]
    candidates.sort(key=lambda candidate: candidate.seconds)
    considered = tuple(Considered(c.strategy, c.seconds, c.reason) for c in candidates)
    return Plan(
        workload=workload,
        machine=machine.name,
        chosen=candidates[0],
        considered=considered,
        bound_s=bound_s(problem),
    )
