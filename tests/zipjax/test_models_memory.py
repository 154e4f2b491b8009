"""Memory while a folder is compressed, loaded plain and loaded compressed is what is promised."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from zipjax.files.safetensors_file import new_safetensors_header, safetensors_prefix
from zipjax.models import (
    CausalConfig,
    GroupedConfig,
    MlpConfig,
    RopeConfig,
    abstract_model,
    config_to_hf,
)
from zipjax.models.hf_names import slots_of

CONFIG = CausalConfig(
    architecture="llama",
    vocab_size=32_000,
    width=1024,
    attention=GroupedConfig(num_heads=16, num_kv_heads=16, head_dim=64),
    feed_forward=(MlpConfig(hidden=4096),) * 6,
    windows=(None,) * 6,
    rope=RopeConfig(),
)
SLACK_NBYTES = 300_000_000

# Each task has a process of its own. Of a peak while loading, what JAX takes by itself to start a
# CPU device is subtracted: some 570 MB, whatever the model.
_SCRIPT = """
import sys
from pathlib import Path

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(dict(line.split(":") for line in lines)["VmHWM"].split()[0])

task, source, target = sys.argv[1:]
if task == "compress":
    from zipjax.cli import main
    assert main(["compress", source, target, "--quiet", "--threads", "1"]) == 0
    nbytes = before = 0
else:
    import jax
    import zipjax
    from flax import nnx
    jax.numpy.zeros(1).block_until_ready()
    before = peak()
    model = zipjax.load_model(source, compressed=task == "compressed")
    nbytes = sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model)))
print(nbytes, peak() - before)
"""


def write_folder(folder: Path) -> tuple[int, int]:
    """A model of some 320 MB; gives the bytes of all tensors and of the largest."""
    shapes = {
        name: slot.tensor_shape for slot in slots_of(abstract_model(CONFIG)) for name in slot.names
    }
    dtype = np.dtype(ml_dtypes.bfloat16)
    header = new_safetensors_header({name: (dtype, shape) for name, shape in shapes.items()}, {})
    noise = np.random.default_rng(0).normal(0, 0.02, 1 << 22).astype(dtype)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(safetensors_prefix(header))
        for idx, shape in enumerate(shapes.values()):
            # Turned a little, so that no two are equal and stored once.
            file.write(np.resize(np.roll(noise, 7919 * idx), shape).tobytes())
    (folder / "config.json").write_text(json.dumps(config_to_hf(CONFIG)))
    sizes = [2 * int(np.prod(shape)) for shape in shapes.values()]
    return sum(sizes), max(sizes)


def run(task: str, source: Path, target: Path | str = "") -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, task, str(source), str(target)],
        env={name: text for name, text in os.environ.items() if not name.startswith("MALLOC_")},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    nbytes, peak = map(int, done.stdout.split())
    return nbytes, peak


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process"
)
def test_peaks(tmp_path):
    source, target = tmp_path / "model", tmp_path / "zipj"
    source.mkdir()
    total, largest = write_folder(source)
    assert total > 300_000_000
    _, peak = run("compress", source, target)
    assert peak <= 2 * largest + SLACK_NBYTES
    for folder in (source, target):
        nbytes, peak = run("compressed", folder)
        assert nbytes < 0.72 * total
        assert peak <= nbytes + largest + SLACK_NBYTES
        nbytes, peak = run("plain", folder)
        assert nbytes == total
        assert peak <= nbytes + largest + SLACK_NBYTES
