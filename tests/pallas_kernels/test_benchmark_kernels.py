"""`benchmarks/kernels.py`: works in small anywhere, and refuses to time a GPU that is not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kernels.py"


def run(*arguments):
    command = [sys.executable, SCRIPT, *arguments]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500)


def test_it_refuses_without_a_gpu():
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "benchmarks/kernels.py needs a GPU (or --quick)\n"


@pytest.mark.slow
def test_the_quick_path_checks_and_times(tmp_path):
    done = run("--quick", "--json", tmp_path / "kernels.json")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "kernels.json").read_text())
    assert {(row["K"], row["N"], row["M"]) for row in result["rows"]} == {
        (depth, num_out, rows) for depth, num_out in ((256, 256), (211, 307)) for rows in (1, 16)
    }
    assert all(row["ours us"] > 0 and row["decode us"] > 0 for row in result["rows"])
    assert "decode_matmul on cpu" in done.stdout
