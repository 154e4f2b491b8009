"""FinDEP for a workload: which devices hold the experts, and how deep the pipeline is."""

from parallel.planner.build import Variant, flat_exchange
from parallel.planner.candidate import Candidate, Disaggregated
from parallel.planner.problem import Problem
from parallel.planner.roofline import experts
from parallel.planner.step import Work
from parallel.planner.strategies.findep import Depth, Times, depths, pipeline_s

# Depths to try; the paper's solver finds no more than these worth while.
NUM_MICRO_MAX, NUM_PARTS_MAX = 4, 8


def propose(problem: Problem) -> Candidate | None:
    """The best division and depth; for serving with experts spread over all devices."""
    load = problem.workload
    if load.mode != "forward" or load.layout != "everywhere":
        return None
    choices = [
        (least_s(times, depth, load.num_layers), num_experts, depth, times)
        for num_experts in range(1, load.num_devices)
        if load.num_experts % num_experts == 0
        for depth in depths(NUM_MICRO_MAX, NUM_PARTS_MAX)
        for times in [times_of(problem, num_experts, depth)]
    ]
    best: tuple[float, int, Depth] | None = None
    for least, num_experts, depth, times in sorted(choices, key=lambda choice: choice[0]):
        if best and least >= best[0]:
            break
        seconds = pipeline_s(times, depth, load.num_layers)
        if best is None or seconds < best[0]:
            best = seconds, num_experts, depth
    return None if best is None else _candidate(problem, *best)


def least_s(times: Times, depth: Depth, num_layers: int) -> float:
    """Seconds that no pipeline of these pieces beats: the work of each device and link."""
    num_parts = depth.num_micro * depth.num_parts
    busiest = max(
        depth.num_micro * (times.attention + times.shared),
        num_parts * max(times.experts, times.transfer),
        times.attention + 2 * times.transfer + times.experts,
    )
    return num_layers * busiest


def times_of(problem: Problem, num_experts: int, depth: Depth) -> Times:
    """Seconds of the pieces when `num_experts` devices hold the experts and the others attention.

    Args:
        problem: with layout "everywhere".
        num_experts: devices that hold experts, all of one size; divides the experts.
        depth: of the pipeline.
    """
    load, machine = problem.workload, problem.machine
    num_attention = load.num_devices - num_experts
    num_tokens = load.num_tokens * load.num_devices
    dense = problem.step(Variant()).forward.dense
    micro_batch = num_tokens / num_attention / depth.num_micro
    cost = experts(
        machine.kernels,
        width=load.width,
        hidden=load.expert_hidden,
        num_matrices=load.num_matrices,
        num_experts=load.num_experts / num_experts,
        nbytes=load.element_nbytes,
    )
    num_pieces = depth.num_micro * depth.num_parts
    copies = num_tokens * load.num_selected
    work = Work("experts", "experts", cost, copies / num_experts)
    # The side with fewer devices sends or receives more bytes each, and waits for them.
    nbytes = copies / min(num_attention, num_experts) * load.width * load.element_nbytes
    _, link = flat_exchange(load, machine)
    return Times(
        attention=dense[0].cost(micro_batch),
        shared=sum(work.cost(micro_batch) for work in dense[1:]),
        experts=work.seconds(num_pieces),
        transfer=link(nbytes / num_pieces),
    )


def _candidate(problem: Problem, seconds: float, num_experts: int, depth: Depth) -> Candidate:
    num_attention = problem.workload.num_devices - num_experts
    return Candidate(
        strategy="findep",
        seconds=seconds,
        disaggregated=Disaggregated(
            num_attention, num_experts, depth.num_micro, depth.num_parts, depth.sequencing
        ),
        reason=f"{num_attention} devices for attention, r1={depth.num_micro}, "
        f"r2={depth.num_parts}, {depth.sequencing}",
    )
