"""What the GPU kernels cost, counted in the code compiled for a GPU that need not be there.

Every case of `kernel_cases.py` is compiled by XLA and Mosaic in a process of its own, its main loop
is found in the machine code, and instructions and bytes are divided by the weights that it decodes
(docs/dryrun.md says how). Nothing is timed, so the figures are the same on every machine and a bar
that does not hold always ends with exit code 1.

    python benchmarks/kernels_static.py --gpu h200|b200 [--quick] [--json [FILE]] [--cases MODULE]
"""

import importlib
import sys
from typing import Any

import harness
from kernel_cases import StaticCase

from pallas_kernels import gpu_of
from zipjax.dryrun import CompileError, KernelReport, compile_kernels

PACKAGES = ("zipjax", "jax", "jaxlib", "jax-cuda13-plugin", "nvidia-cuda-nvcc")
COLUMNS = {
    "kernel": "",
    "config": "",
    "registers": "d",
    "spilled B": "d",
    "smem B": "d",
    "tensor": "d",
    "ALU/weight": ".2f",
    "slots/weight": ".2f",
    "smem B/weight": ".2f",
    "HBM B/weight": ".3f",
}
FIELDS = (
    "registers",
    "spill_bytes",
    "smem_bytes",
    "tensor_core_instructions",
    "alu_instructions_per_weight",
    "issue_slots_per_weight",
    "smem_bytes_per_weight",
    "hbm_bytes_per_weight",
)


def arguments():
    """What every benchmark takes, and for which GPU."""
    parser = harness.arguments(__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h200", help="for which GPU: h200, b200, ...")
    parser.add_argument(
        "--cases", default="kernel_cases", metavar="MODULE", help="whose cases(gpu) are compiled"
    )
    return parser.parse_args()


def row(case: StaticCase, outcome: KernelReport | CompileError) -> dict[str, Any]:
    """A line of the table; of a kernel that did not compile there is only the name."""
    config = ", ".join(f"{key}={value}" for key, value in case.kernel.config.items())
    names = {"kernel": case.kernel.name, "config": config}
    if isinstance(outcome, CompileError):
        return names | dict.fromkeys(list(COLUMNS)[2:])
    figures = [getattr(outcome, field) for field in FIELDS]
    return names | dict(zip(list(COLUMNS)[2:], figures, strict=True))


def bars(case: StaticCase, outcome: KernelReport | CompileError) -> list[harness.Bar]:
    """That it compiles, spills nothing, and what its case promises."""
    title = case.kernel.title
    if isinstance(outcome, CompileError):
        return [harness.Bar(f"{title}: compiles", 0, ">=", 1)]
    promised = {"spill_bytes": 0.0} | dict(case.at_most)
    kept = [
        harness.Bar(f"{title}: {field}", getattr(outcome, field), "<=", want)
        for field, want in promised.items()
    ]
    if case.uses_tensor_cores:
        field = "tensor_core_instructions"
        kept.append(harness.Bar(f"{title}: {field}", getattr(outcome, field), ">=", 1))
    return kept


def main() -> int:
    """Compile, count, compare."""
    args = arguments()
    args.strict = True
    gpu = gpu_of(args.gpu)
    cases: list[StaticCase] = importlib.import_module(args.cases).cases(gpu)
    if args.quick:  # one of each kernel
        cases = list({case.kernel.name: case for case in reversed(cases)}.values())[::-1]
    outcomes = compile_kernels([case.kernel for case in cases], gpu)
    both = list(zip(cases, outcomes, strict=True))
    errors = [str(outcome) for outcome in outcomes if isinstance(outcome, CompileError)]
    reports = [outcome.as_dict() for outcome in outcomes if isinstance(outcome, KernelReport)]
    for line in [*errors, *(f"{r['name']}: {w}" for r in reports for w in r["warnings"])]:
        print(line, file=sys.stderr)
    return harness.report(
        f"Kernels compiled for {gpu.name}: the main loop, per weight",
        COLUMNS,
        [row(case, outcome) for case, outcome in both],
        [
            harness.Bar("kernels compiled", len(reports), ">=", max(1, len(cases))),
            *(bar for case, outcome in both for bar in bars(case, outcome)),
        ],
        PACKAGES,
        args,
        extra={"kernels": reports, "errors": errors},
    )


if __name__ == "__main__":
    sys.exit(main())
