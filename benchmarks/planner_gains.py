"""What papers report as their gain, and what the planner predicts for their machines and shapes.

Constants are the papers' where they print them. Shapes are a grid of the kind that a paper sweeps,
where its own list was not at hand: so ranges and means compare, not single figures.

    python benchmarks/planner_gains.py [--json FILE]
"""

import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness

from parallel.planner import (
    MACHINES,
    CodecRate,
    Line,
    Machine,
    Problem,
    Variant,
    Workload,
    behind_backward,
    machine_of,
)
from parallel.planner.strategies import (
    combined,
    compass,
    dreamddp,
    findep,
    fsmoe,
    hiermoe,
    mast,
    parm,
    pipemoe,
    schemoe,
    sequential,
    tutel,
)
from parallel.planner.strategies.disaggregated import times_of

LAYER = Workload(
    num_layers=1,
    num_tokens=2048,
    seq_len=1024,
    width=2048,
    num_heads=16,
    num_kv_heads=16,
    head_dim=128,
    num_experts=8,
    num_selected=2,
    expert_hidden=8192,
    num_matrices=2,
    num_inter=8,
    num_intra=4,
    layout="sharded",
)
FINDEP = replace(
    LAYER,
    num_layers=16,
    num_inter=1,
    num_intra=8,
    num_experts=64,
    num_selected=6,
    expert_hidden=1408,
    num_matrices=3,
    shared_hidden=2816,
    layout="everywhere",
    mode="forward",
)
# PipeMoE's table: seconds, and seconds per byte, by number of RTX 2080 Ti; of a matrix product.
PIPEMOE_LINKS = {
    16: Line(5.70e-4, 2.96e-10),
    32: Line(2.09e-4, 3.55e-10),
    64: Line(7.83e-4, 3.84e-10),
}
PIPEMOE_EXPERT = Line(2 * 1.5e-4, 2 * 3.73e-14)
# HierMoE's table, 32 RTX A6000: the exchange over all, and between and within groups by level.
HIERMOE = {
    "flat": Line(0.722e-3, 5.70e-10),
    "inter": [Line(0.497e-3, 5.29e-10), Line(0.301e-3, 1.17e-10), Line(0.149e-3, 2.06e-11)],
    "intra": [Line(0.571e-3, 1.27e-10), Line(0.114e-3, 2.63e-11), Line(0.204e-3, 1.64e-11)],
}
# DreamDDP's repository, "bandwidth 10", s per step: synchronous, local SGD, DreamDDP, equal runs.
DREAMDDP = {
    "A6000 Llama": (0.992, 0.148, 0.112, 0.126),
    "A6000 GPT-2": (0.979, 0.155, 0.119, 0.128),
    "A6000 ResNet-50": (1.778, 0.297, 0.196, 0.229),
    "A800 GPT-2": (0.171, 0.0584, 0.0498, 0.0502),
    "H100 Llama": (0.186, 0.0281, 0.0209, 0.0234),
}


def rows() -> list[dict[str, Any]]:
    """One row for each claim."""
    found = [*pipemoe_rows(), *fsmoe_rows(), *schemoe_rows(), *other_layer_rows()]
    return [*found, *findep_rows(), *dreamddp_rows(), *hiermoe_rows(), *compass_rows()]


def row(what: str, paper_says: str, gains: Iterable[float]) -> dict[str, str]:
    """A claim beside the range and the mean of predicted gains."""
    values = list(gains)
    predicted = f"{values[0]:.2f}x"
    if len(values) > 1:
        mean = statistics.mean(values)
        predicted = f"{min(values):.2f}x to {max(values):.2f}x, mean {mean:.2f}x"
    return {"what": what, "paper_says": paper_says, "predicted": predicted}


def grid(machine: str, **changes: Any) -> list[Problem]:
    """Layers of many sizes on a machine of a paper."""
    base = replace(LAYER, num_intra=MACHINES[machine].num_intra, **changes)
    if machine == "fsmoe-a":
        base = replace(base, num_inter=6, num_experts=6)
    return [
        Problem(
            replace(
                base, num_tokens=tokens, width=width, expert_hidden=factor * width, num_selected=k
            ),
            MACHINES[machine],
        )
        for tokens in (1024, 4096, 8192)
        for width in (1024, 2048, 4096)
        for factor in (2, 4)
        for k in (1, 2)
    ]


def without_misprints() -> Machine:
    """Testbed A with the two slopes that look like misprints divided by ten."""
    machine = machine_of("fsmoe-a")
    intra = dict(machine.intra.fits) | {"all_gather": Line(0.337e-3, 2.32e-10)}
    inter = dict(machine.inter.fits) | {"all_reduce": Line(0.511e-3, 4.95e-10)}
    return replace(
        machine,
        name="fsmoe-a with two slopes / 10",
        intra=replace(machine.intra, fits=intra),
        inter=replace(machine.inter, fits=inter),
    )


def gains(problems: Iterable[Problem], ours: Callable, theirs: Callable) -> list[float]:
    """How many times faster one strategy is predicted to be than another."""
    return [theirs(problem).seconds / ours(problem).seconds for problem in problems]


def pipemoe_rows() -> list[dict[str, str]]:
    """The best degree against one chunk."""
    found = []
    for num_devices, link in PIPEMOE_LINKS.items():
        values = []
        for tokens in (1024, 4096, 16384):
            for width in (512, 1024, 2048, 4096):
                for hidden in (1024, 2048, 4096):
                    sizes = tokens * width * 4.0, tokens * width * hidden * 4.0
                    case = (link, sizes[0], PIPEMOE_EXPERT, sizes[1])
                    degree = pipemoe.best_degree(*case, degree_max=64)
                    alone = pipemoe.pipeline_s(*case, 1)
                    values.append(alone / pipemoe.pipeline_s(*case, degree))
        claim = "1.05x to 1.77x over others on 174 layers" if num_devices == 64 else "-"
        found.append(row(f"PipeMoE over one chunk, {num_devices} RTX 2080 Ti", claim, values))
    return found


def fsmoe_rows() -> list[dict[str, str]]:
    """Two links and partitioned gradients against one link; and what exact search adds."""
    found = []
    corrected = [Problem(p.workload, without_misprints()) for p in grid("fsmoe-a")]
    cases = [
        (grid("fsmoe-a"), "1.18x on 1,458 layers"),
        (corrected, "1.18x on 1,458 layers"),
        (grid("fsmoe-b"), "1.22x on 1,458 layers"),
    ]
    for problems, claim in cases:
        name = problems[0].machine.name
        found += [
            row(
                f"FSMoE over PipeMoE, {name}",
                claim,
                gains(problems, fsmoe.propose, pipemoe.propose),
            ),
            row(
                f"FSMoE over DeepSpeed-MoE, {name}",
                "1.28x to 3.01x on models",
                gains(problems, fsmoe.propose, sequential.propose),
            ),
            row(
                f"FSMoE over PipeMoE with Lina, {name}",
                "1.14x on models",
                gains(problems, fsmoe.propose, tutel.propose_lina),
            ),
            row(
                f"ours over FSMoE, {name}",
                "-",
                gains(problems, combined.propose, fsmoe.propose),
            ),
            {
                "what": f"FSMoE: passes of a layer with different degrees, {name}",
                "paper_says": "912 of 1,458 layers",
                "predicted": different_degrees(problems),
            },
        ]
    return found


def different_degrees(problems: list[Problem]) -> str:
    """How many layers have another best degree backward than forward."""
    num = 0
    for problem in problems:
        step = problem.step(Variant())
        forward = fsmoe.best_degree(step.forward.moe, problem.degrees)
        gradient_s = step.all_reduce(step.gradient_nbytes)
        backward = fsmoe.best_degree(step.backward.moe, problem.degrees, gradient_s)
        num += forward != backward
    return f"{num} of {len(problems)} layers"


def schemoe_rows() -> list[dict[str, str]]:
    """The order of two chunks with a codec of ratio 4, against one chunk with it and without."""
    codec = CodecRate(ratio=0.25, encode_bytes_per_s=50e9, decode_bytes_per_s=50e9, start_s=20e-6)
    machine = replace(machine_of("fsmoe-b"), codec=codec)
    problems = [Problem(p.workload, machine) for p in grid("fsmoe-b", layout="everywhere")]
    problems = [Problem(replace(p.workload, num_experts=32), machine) for p in problems]
    packed = Variant(compressed=True)

    def compressed(problem: Problem):
        return sequential.of_step("sequential", problem.step(packed), packed)

    return [
        row(
            "ScheMoE: schedule alone, codec in both, fsmoe-b",
            "1.09x in its ablation",
            gains(problems, schemoe.propose, compressed),
        ),
        row(
            "ScheMoE: lossy codec and schedule over sequential, fsmoe-b",
            "2.4x in its ablation",
            gains(problems, schemoe.propose, sequential.propose),
        ),
    ]


def other_layer_rows() -> list[dict[str, str]]:
    """Parm and Mast."""
    replicated = [
        Problem(replace(p.workload, num_kv_heads=16), p.machine)
        for p in grid("fsmoe-b", layout="replicated")
    ]
    deep = [Problem(replace(p.workload, num_layers=4), p.machine) for p in grid("fsmoe-b")]
    return [
        row(
            "Parm over DeepSpeed-MoE, fsmoe-b",
            "1.13x to 5.77x on 1,296 layers",
            gains(replicated, parm.propose, sequential.propose),
        ),
        row(
            "Mast over PipeMoE, fsmoe-b, 4 layers",
            "1.13x to 1.43x over four others",
            gains(deep, mast.propose, pipemoe.propose),
        ),
        row(
            "Mast over DeepSpeed-MoE, fsmoe-b, 4 layers",
            "1.13x to 1.43x over four others",
            gains(deep, mast.propose, sequential.propose),
        ),
    ]


def findep_rows() -> list[dict[str, str]]:
    """Parts of micro-batches and both sequencings against micro-batches alone (PPPipe)."""
    found = []
    claims = {"hiermoe": "1.02x to 1.53x on 8 A6000", "h200": "1.02x to 1.35x on 8 H20"}
    for name, claim in claims.items():
        problems = [
            Problem(replace(FINDEP, num_tokens=tokens), MACHINES[name])
            for tokens in (1024, 4096, 8192, 32768)
        ]
        for num_micro_max in (2, 4):
            values = [
                findep_gain(problem, num_experts, num_micro_max)
                for problem in problems
                for num_experts in (2, 4)
            ]
            what = f"FinDEP over PPPipe, {name}, 8 devices, r1 up to {num_micro_max}"
            found.append(row(what, claim, values))
    return found


def findep_gain(problem: Problem, num_experts: int, num_micro_max: int) -> float:
    """Best depth over the best of one part and ASAS."""
    best: dict[bool, float] = {}
    for depth in findep.depths(num_micro_max, 8):
        times = times_of(problem, num_experts, depth)
        seconds = findep.pipeline_s(times, depth, problem.workload.num_layers)
        is_plain = depth.num_parts == 1 and depth.sequencing == "ASAS"
        for key in (True, False) if is_plain else (False,):
            best[key] = min(best.get(key, seconds), seconds)
    return best[True] / best[False]


def dreamddp_rows() -> list[dict[str, str]]:
    """Compute and exchange follow from the first two figures; layers are taken to be equal."""
    found = []
    for name, (synchronous, local, reported, equal) in DREAMDDP.items():
        period, num_layers = 10, 24
        exchange = (synchronous - local) / (1 - 1 / period)
        compute = synchronous - exchange
        layers = behind_backward(
            [compute / num_layers] * num_layers, [exchange / num_layers] * num_layers
        )
        best = dreamddp.best_runs(layers, period)
        seconds = compute + best.wait_s / period
        found.append(
            row(
                f"DreamDDP over local SGD, {name}, H = 10",
                f"{local / reported:.2f}x; equal runs {local / equal:.2f}x",
                [local / seconds],
            )
        )
    return found


def hiermoe_rows() -> list[dict[str, str]]:
    """Levels and duplicates against one exchange of every copy, routing drawn at random."""
    found = []
    claims = {6: "1.37x", 8: "1.72x", 10: "1.82x"}
    for num_selected, claim in claims.items():
        sizes = hiermoe.uniform_nbytes(
            group_sizes=[4, 8, 16, 32],
            num_experts=256,
            num_selected=num_selected,
            num_tokens=1024,
            token_nbytes=3584 * 2,
        )
        levels = {"group_sizes": [4, 8, 16, 32], "nbytes": sizes}
        best = hiermoe.best_num_levels(**levels, **HIERMOE)
        seconds = hiermoe.exchange_s(num_levels=best, **levels, **HIERMOE)
        copies = HIERMOE["flat"](1024 * num_selected * 3584 * 2)
        what = f"HierMoE without swaps over Megatron-LM, k = {num_selected}: {best} levels"
        found.append(row(what, f"{claim} (exchange)", [copies / seconds]))
    return found


def compass_rows() -> list[dict[str, str]]:
    """A gather and its product in chunks, on eight H200."""
    machine = machine_of("h200")
    link = machine.intra.cost("all_gather", 8)
    values = []
    for tokens in (2048, 8192, 32768):
        for width, outer in ((4096, 14336), (8192, 28672)):
            nbytes, flops = tokens * width * 2.0, 2.0 * tokens * width * outer / 8
            product = Line(machine.kernels.launch_s, 1 / machine.kernels.flops_per_s)
            case = (link, nbytes, product, flops)
            degree = compass.best_degree(*case, degree_max=32)
            alone = compass.decomposed_s(*case, 1)
            values.append(alone / compass.decomposed_s(*case, degree))
    return [row("Compass InterDecom, gather and product, 8 H200", "up to 1.3x", values)]


def main() -> int:
    """Print the table."""
    args = harness.arguments(__doc__.splitlines()[0]).parse_args()
    columns = {"what": "", "paper_says": "", "predicted": ""}
    return harness.report("papers' gains", columns, rows(), [], ("zipjax", "numpy"), args)


if __name__ == "__main__":
    sys.exit(main())
