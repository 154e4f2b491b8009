"""Compressing a model never takes a second copy of it, and a compressed model stays small."""

import os
import subprocess
import sys
import textwrap

import pytest

# In a process of its own, so that the peak is that of compressing and nothing else.
PROBE = """
import resource, sys
import jax, jax.numpy as jnp, ml_dtypes, numpy as np
from flax import nnx
import zipjax

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def reset_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")

def peak():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) * 1024

class Model(nnx.Module):
    def __init__(self, num_layers, width):
        rng = np.random.default_rng(0)
        def draw(key, shape, dtype):
            return jnp.asarray(rng.standard_normal(shape, np.float32), dtype)
        self.layers = nnx.List([
            nnx.Linear(width, width, use_bias=False, param_dtype=jnp.bfloat16, kernel_init=draw,
                       rngs=nnx.Rngs(0))
            for _ in range(num_layers)
        ])

warm = Model(1, 256)
zipjax.compress_model(warm)
model = Model({num_layers}, {width})
jax.block_until_ready(nnx.state(model))
before = resident()
reset_peak()
report = zipjax.compress_model(model)
print(before, peak(), resident(), report.raw_nbytes, report.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_the_peak_is_the_model_and_one_tensor():
    num_layers, width = 12, 2048
    code = textwrap.dedent(PROBE).format(num_layers=num_layers, width=width)
    # What is freed goes back to the system at once, so that what is resident is what is held.
    environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300
    )
    assert result.returncode == 0, result.stderr
    before, peak, after, raw_nbytes, nbytes = map(int, result.stdout.split())
    tensor_nbytes = 2 * width * width
    assert raw_nbytes == num_layers * tensor_nbytes
    # The streams of one tensor while its plain form is there, and what the encoder works with.
    assert peak - before < 2 * tensor_nbytes
    assert after - before < nbytes - raw_nbytes + tensor_nbytes
