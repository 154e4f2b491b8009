"""The example on eight devices, in processes of its own."""

import json
import signal
import socket
import subprocess
import time

import pytest

from tests.examples.train_moe_cases import TINY, start

DEADLINE_S = 500


def finish(*runs: subprocess.Popen) -> list[str]:
    """Wait for all and return what they printed."""
    try:
        said = [run.communicate(timeout=DEADLINE_S) for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0] * len(runs), said
    return [out for out, _ in said]


@pytest.mark.slow
def test_compressed_and_raw_runs_are_bit_identical():
    """The sizes of the default run, so that its messages are large enough to be coded."""
    (out,) = finish(start("--steps=3", "--check", "--json", "--quiet"))
    figures = json.loads(out)
    assert figures["bit_identical"] is True
    over_expert = figures["wire"]["expert"]
    assert over_expert["sent_nbytes"] < 0.8 * over_expert["raw_nbytes"]


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one(tmp_path):
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    common = (*TINY, "--steps=3", "--json", "--quiet")
    (alone,) = finish(start(*common, f"--out={tmp_path / 'alone'}"))
    join = (f"--coordinator=localhost:{port}", "--num-processes=2", f"--out={tmp_path / 'both'}")
    first, second = finish(*(start(*common, *join, f"--process-id={i}") for i in range(2)))
    assert second == ""
    figures, want = json.loads(first), json.loads(alone)
    for name in ("digest", "first_loss", "last_loss", "validation_loss", "wire"):
        assert figures[name] == want[name], name
    (resumed,) = finish(start(*common, f"--out={tmp_path / 'both'}", "--resume"))
    assert json.loads(resumed)["digest"] == want["digest"]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "one bit"])
def test_a_damaged_checkpoint_gets_one_line_and_exit_code_2(tmp_path, damage):
    """In a process of its own, since Orbax leaves half-finished reads behind."""
    common = (*TINY, "--steps=1", "--quiet", f"--out={tmp_path}")
    finish(start(*common))
    files = [path for path in (tmp_path / "checkpoints/1/state").rglob("d/*") if path.is_file()]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data[:-100] if damage == "truncated" else data)
    run = start(*common, "--resume")
    _, err = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 2, err
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "the checkpoint of step 1 must" in line
    assert "move its folder 1 away to resume from the one before" in line


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_and_exit_code_130(tmp_path):
    common = (*TINY, "--steps=100000", f"--out={tmp_path}")
    run = start(*common)
    metrics = tmp_path / "metrics.jsonl"
    deadline = time.monotonic() + DEADLINE_S
    while not (metrics.exists() and metrics.read_text().count("\n") > 3):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=DEADLINE_S)
    assert run.returncode == 130, err
    assert "Interrupted after" in out
    assert "Traceback" not in err
    num_steps = metrics.read_text().count("\n")
    assert (tmp_path / "checkpoints" / str(num_steps)).is_dir()
