"""The planner: exactness counts and planning time; `planner_gains.py` has the papers' claims.

Every exact search is compared with brute force on random small instances (those of
`tests/parallel/planner/families.py`), and with the paper's own rule. Planning is timed for models
of up to 256 layers on up to 1,024 devices, in seconds of one core's own time, so that whoever else
uses the machine does not count. `docs/planner.md` shows the tables.

    python benchmarks/planner.py [--quick] [--json FILE] [--strict]
"""

import statistics
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import harness
import numpy as np

from parallel.planner import MACHINES, Workload, plan
from tests.parallel.planner.families import FAMILIES

NUM_INSTANCES, NUM_INSTANCES_QUICK = 2_000, 20
MODEL = Workload(
    num_layers=64,
    num_tokens=8192,
    seq_len=4096,
    width=4096,
    num_heads=64,
    num_kv_heads=8,
    head_dim=128,
    num_experts=128,
    num_selected=8,
    expert_hidden=1536,
    num_inter=8,
    num_intra=8,
)


def main() -> int:
    """Measure, print one table, and give the exit code."""
    args = harness.arguments(__doc__.splitlines()[0]).parse_args()
    harness.on_one_core(args.malloc)
    num_instances = NUM_INSTANCES_QUICK if args.quick else NUM_INSTANCES
    exact = [exactness(name, num_instances) for name in FAMILIES]
    timed = planning_times(3 if args.quick else 7)
    at_64 = [row["seconds"] for row in timed if row["what"].startswith("plan 64 layers")]
    bars = [
        harness.Bar(
            "families x instances in which the exact search is not brute force",
            float(sum(row["mismatches"] for row in exact)),
            "<=",
            0,
        ),
        harness.Bar("seconds to plan 64 layers, worst", max(at_64), "<=", 1.0),
        harness.Bar(
            "predicted time over that of the fastest published strategy, worst",
            max(row["of_published"] for row in timed),
            "<=",
            1.0,
        ),
    ]
    columns = {
        "what": "",
        "instances": ",d",
        "mismatches": "d",
        "paper_worse": "d",
        "paper_mean_loss": ".2%",
        "paper_worst_loss": ".1%",
        "seconds": ".3f",
        "of_published": ".3f",
    }
    return harness.report("planner", columns, exact + timed, bars, ("zipjax", "numpy"), args)


def exactness(name: str, num_instances: int) -> dict[str, Any]:
    """Compare a family's exact search with brute force and with the paper's rule."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    outcomes = [FAMILIES[name](rng) for _ in range(num_instances)]
    row: dict[str, Any] = {
        "what": name,
        "instances": num_instances,
        "mismatches": sum(outcome.ours != outcome.brute for outcome in outcomes),
    }
    pairs = [(o.paper, o.ours) for o in outcomes if o.paper is not None]
    if pairs:
        losses = [paper / ours - 1 for paper, ours in pairs if ours]
        row["paper_worse"] = sum(paper > ours for paper, ours in pairs)
        row["paper_mean_loss"] = statistics.mean(losses)
        row["paper_worst_loss"] = max(losses)
    return row


def planning_times(rounds: int) -> list[dict[str, Any]]:
    """Median seconds of whole plans, by layers and devices; every machine at 64 layers."""
    cases = [
        (f"plan {MODEL.num_layers} layers, 64 devices, {name}", MODEL, name) for name in MACHINES
    ]
    for num_layers, num_inter in ((16, 8), (128, 8), (256, 8), (64, 32), (64, 128), (256, 128)):
        experts = max(128, num_inter * 8)
        workload = replace(MODEL, num_layers=num_layers, num_inter=num_inter, num_experts=experts)
        name = f"plan {num_layers} layers, {num_inter * 8:,} devices, h200"
        cases.append((name, workload, "h200"))
    return [timed(what, workload, name, rounds) for what, workload, name in cases]


def timed(what: str, workload: Workload, machine: str, rounds: int) -> dict[str, Any]:
    """Plan some times."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        found = plan(workload, MACHINES[machine])
        taken.append(time.process_time() - start)
    published = min(c.seconds for c in found.considered if c.strategy != "combined")
    return {
        "what": what,
        "seconds": statistics.median(taken),
        "of_published": found.seconds / published,
    }


if __name__ == "__main__":
    sys.exit(main())
