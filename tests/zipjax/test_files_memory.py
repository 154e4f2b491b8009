"""Memory while saving and converting is bounded by the largest tensor, not by the file."""

import subprocess
import sys
from pathlib import Path

import pytest

import zipjax

NUM_TENSORS, TENSOR_NBYTES = 48, 4 << 20  # 192 MiB in all.
GROWTH_NBYTES_MAX = 10 * TENSOR_NBYTES

# Runs in a process of its own: what other tests allocated must not hide what this one does.
_SCRIPT = """
import sys
import numpy as np
from tests.reliability.memory import _peak, _reset_peak
from zipjax.files.convert import compress_file, decompress_file
from zipjax.files.tensor_file import open_tensors
from zipjax.files.saving import save_sources
from zipjax.files.tensor_source import TensorSource

folder, count, nbytes, task = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def read(seed):
    return np.random.default_rng(seed).normal(0, 0.02, nbytes // 4).astype(np.float32)

def source(seed):
    return TensorSource(
        name=f"t{seed}", dtype=np.dtype("f4"), shape=(nbytes // 4,), read=lambda: read(seed)
    )

def run():
    if task == "save":
        save_sources(f"{folder}/a.zipj", [source(seed) for seed in range(count)])
    elif task == "decompress":
        decompress_file(f"{folder}/a.zipj", f"{folder}/a.safetensors")
    else:
        compress_file(open_tensors(f"{folder}/a.safetensors"), f"{folder}/b.zipj")

save_sources(f"{folder}/warm.zipj", [source(0)])
before = _reset_peak()
run()
print(_peak() - before)
"""


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(),
    reason="only Linux lets a process reset its peak",
)
def test_peak_memory_is_that_of_a_few_tensors(tmp_path):
    for task in ("save", "decompress", "compress"):
        arguments = [str(tmp_path), str(NUM_TENSORS), str(TENSOR_NBYTES), task]
        done = subprocess.run(
            [sys.executable, "-c", _SCRIPT, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) < GROWTH_NBYTES_MAX, task
    assert (tmp_path / "a.zipj").stat().st_size > 0.8 * NUM_TENSORS * TENSOR_NBYTES
    assert zipjax.verify(tmp_path / "b.zipj").ok
