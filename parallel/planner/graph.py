"""The task graph of a whole candidate: what the simulator runs and pictures show."""

from collections.abc import Sequence

from parallel.planner.across import idle_windows, layer_chain
from parallel.planner.block import Block
from parallel.planner.candidate import Across, Candidate
from parallel.planner.problem import Problem
from parallel.planner.shop import Order, Stage, tasks_of
from parallel.planner.simulate import simulate
from parallel.planner.step import Step
from parallel.planner.strategies import disaggregated, findep
from parallel.planner.task import Task, Timeline
from parallel.planner.windows import in_pieces_s


def timeline_of(problem: Problem, candidate: Candidate) -> Timeline:
    """Simulate a candidate from its first task to its last.

    Args:
        problem: that the candidate was proposed for.
        candidate: of any strategy.
    """
    tasks = step_tasks(problem, candidate)
    return simulate(tasks, in_order=True, contention=problem.machine.contention)


def step_tasks(problem: Problem, candidate: Candidate) -> list[Task]:
    """The tasks of a candidate, in the order of each resource."""
    step = problem.step(candidate.variant)
    if candidate.disaggregated is not None:
        choice = candidate.disaggregated
        depth = findep.Depth(choice.num_micro, choice.num_parts, choice.sequencing)  # type: ignore[arg-type]
        times = disaggregated.times_of(problem, choice.num_experts, depth)
        return findep.tasks_of(times, depth, step.num_layers)
    if candidate.across is not None:
        return _across(step, candidate.across, candidate.gradients)
    return _layers(step, candidate)


def _layers(step: Step, candidate: Candidate) -> list[Task]:
    """Layers one after the other, exchanges of gradients in their windows."""
    tasks: list[Task] = []
    gradients, piece = iter(candidate.gradients), candidate.gradient_piece_nbytes
    for plan in (candidate.forward, candidate.backward):
        if plan is None:
            continue
        for _ in range(step.num_layers):
            for block in plan.blocks:
                nbytes = next(gradients, 0.0) if plan is candidate.backward else 0.0
                _append(tasks, block, in_pieces_s(step.all_reduce, nbytes, piece))
    return _append_exchange(tasks, in_pieces_s(step.all_reduce, next(gradients, 0.0), piece))


def _append(tasks: list[Task], block: Block, exchange_s: float) -> None:
    """Put a block behind everything before it, with an exchange where it belongs."""
    order, fillers = block.order, []
    if exchange_s:
        fillers = [Stage("gradients", "inter", exchange_s)]
        order = (*order[: block.place], len(block.stages), *order[block.place :])
    start = (_barrier(tasks),) if tasks else ()
    tasks += tasks_of(block.stages, order, fillers, base=len(tasks), after=start)


def _barrier(tasks: list[Task]) -> int:
    """A task of no length that ends when all before it have, and its index."""
    ended = tuple(range(_last_barrier(tasks), len(tasks)))
    tasks.append(Task("barrier", "barrier", 0.0, ended, len(tasks)))
    return len(tasks) - 1


def _last_barrier(tasks: Sequence[Task]) -> int:
    return next((i for i in range(len(tasks) - 1, -1, -1) if tasks[i].resource == "barrier"), 0)


def _append_exchange(tasks: list[Task], exchange_s: float) -> list[Task]:
    if exchange_s:
        barrier = _barrier(tasks)
        tasks.append(Task("gradients", "inter", exchange_s, (barrier,), len(tasks)))
    return tasks


def _across(step: Step, across: Across, gradients: Sequence[float]) -> list[Task]:
    """Parts across layers, exchanges of gradients in the gaps of the slow link."""
    tasks: list[Task] = []
    for part, order in zip(step.passes.values(), across.orders, strict=True):
        layer = layer_chain(part, step, across.num_parts)
        start = (_barrier(tasks),) if tasks else ()
        stages = layer * step.num_layers
        if part is step.backward:
            fillers, order = _with_gaps_filled(layer, order, step, gradients)
            tasks += tasks_of(stages, order, fillers, base=len(tasks), after=start)
        else:
            tasks += tasks_of(stages, order, base=len(tasks), after=start)
    left = gradients[-1] if gradients else 0.0
    return _append_exchange(tasks, step.all_reduce(left))


def _with_gaps_filled(
    layer: list[Stage], order: Order, step: Step, gradients: Sequence[float]
) -> tuple[list[Stage], Order]:
    """Exchanges as fillers, each before the operation of the slow link that ends its gap."""
    places = idle_windows(layer, order, step).places
    num_stages = len(layer) * step.num_layers
    fillers: list[Stage] = []
    longer: list[int] = []
    exchanges = {place: nbytes for place, nbytes in zip(places, gradients, strict=False) if nbytes}
    for place in range(len(order) + 1):
        if place in exchanges:
            longer.append(num_stages + len(fillers))
            fillers.append(Stage("gradients", "inter", step.all_reduce(exchanges[place])))
        longer.extend(order[place : place + 1])
    return fillers, tuple(longer)
