"""`benchmarks/kernels_static.py` prints what it promises and fails when a bar does not hold."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="JAX's CUDA plug-in, which compiles, is made for Linux alone"
)

ROOT = Path(__file__).parents[2]
FIELDS = """
    name gpu config registers spill_bytes smem_bytes tensor_core_instructions
    alu_instructions_per_weight issue_slots_per_weight smem_bytes_per_weight hbm_bytes_per_weight
""".split()


def run(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "benchmarks" / "kernels_static.py", *arguments]
    return subprocess.run(
        [*command, "--cases", "tests.zipjax.static_cases"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
    )


def test_the_report_and_a_bar_that_does_not_hold():
    done = run("--gpu", "h200", "--json")
    result = json.loads(done.stdout)
    assert [kernel["config"] for kernel in result["kernels"]] == [{"M": 8}, {"M": 16}, {}]
    assert all(set(FIELDS) <= set(kernel) for kernel in result["kernels"])
    failed = [bar["name"] for bar in result["bars"] if not bar["holds"]]
    assert failed == ["toy_matmul(M=16): issue_slots_per_weight"]
    assert done.returncode == 1
    last = done.stderr.splitlines()[-2:]  # the table and the bars come last, beside the JSON
    assert "issue_slots_per_weight" in last[0] and "DOES NOT HOLD" in last[0]
    assert last[1] == "toy_copy: spill_bytes: 0, wanted <= 0: holds"


def test_bars_that_hold_and_a_file(tmp_path):
    done = run("--gpu", "h200", "--quick", "--json", str(tmp_path / "static.json"))
    assert done.returncode == 0, done.stderr
    assert "slots/weight" in done.stdout
    result = json.loads((tmp_path / "static.json").read_text())
    assert len(result["kernels"]) == 2 and all(bar["holds"] for bar in result["bars"])


def test_a_kernel_that_does_not_compile_is_a_bar_that_does_not_hold():
    """wgmma is Hopper's alone: LLVM refuses it or aborts, and the case after it has its turn."""
    done = run("--gpu", "b200", "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 1
    assert [kernel["name"] for kernel in result["kernels"]] == ["toy_copy"]
    assert len(result["errors"]) == 2
    assert all("wgmma" in error for error in result["errors"])
