"""Importing `parallel` starts nothing: devices and processes can still be chosen afterwards."""

import subprocess
import sys

AFTER_IMPORT = """
import sys
import parallel
import jax
from jax._src import xla_bridge

assert not xla_bridge.backends_are_initialized(), "importing touched a device"
unwanted = {"flax", "orbax", "optax", "zipjax"} & set(sys.modules)
assert not unwanted, unwanted
jax.config.update("jax_num_cpu_devices", 3)
jax.distributed.initialize("localhost:%d", num_processes=1, process_id=0)
assert dict(parallel.make_mesh({"all": -1}).shape) == {"all": 3}
jax.distributed.shutdown()
"""


def test_nothing_is_needed_from_import_time(free_port):
    run(AFTER_IMPORT % free_port)


def test_a_touched_device_would_be_found(free_port):
    """The test above can fail."""
    result = run("import jax; jax.devices()\n" + AFTER_IMPORT % free_port, check=False)
    assert "importing touched a device" in result.stderr


def run(program: str, *, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=check
    )
