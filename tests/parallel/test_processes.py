"""Two real processes over gloo: what one process with eight devices cannot show."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

DEADLINE_S = 400


pytestmark = [pytest.mark.slow, pytest.mark.timeout(DEADLINE_S + 60)]


@pytest.mark.parametrize("codec", ["raw", "exponent"])
def test_large_sums_and_gathers_keep_every_bit(free_port, tmp_path, codec):
    """32 MiB a rank, 60 times: smaller buffers never showed what `lax.psum_scatter` does."""
    run_two_ranks(tmp_path, free_port, codec)


def test_a_late_rank_is_waited_for(free_port, tmp_path):
    """After 30 s `lax.psum_scatter` gives up in several jax versions (jax-ml/jax issue 40831)."""
    run_two_ranks(tmp_path, free_port, "raw", seconds_late=40)


def run_two_ranks(tmp_path: Path, port: int, codec: str, seconds_late: float = 0) -> None:
    """Run both ranks to their end, and end both whatever happens to one."""
    command = [sys.executable, "-m", "tests.parallel.two_ranks", str(port)]
    logs = [tmp_path / f"rank{rank}.log" for rank in range(2)]
    ranks = []
    try:
        for rank, log in enumerate(logs):
            with log.open("w") as out:
                args = [*command, str(rank), codec, str(seconds_late)]
                ranks.append(subprocess.Popen(args, stdout=out, stderr=out))
        codes = wait_for(ranks)
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    tails = "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in logs)
    assert codes == [0, 0], tails


def wait_for(ranks: list[subprocess.Popen]) -> list[int | None]:
    """Exit codes, as soon as all ended, one failed, or the deadline passed (None: still runs)."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        codes = [process.poll() for process in ranks]
        if None not in codes or any(codes):
            return codes
        time.sleep(0.2)
    return [process.poll() for process in ranks]
