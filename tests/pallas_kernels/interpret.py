"""Pallas' interpret mode for Mosaic GPU kernels, public or private by version."""

import jax
from jax._src.pallas.mosaic_gpu.interpret import gpu_callbacks

if jax.__version_info__ >= (0, 12):
    from jax.experimental.pallas.mosaic_gpu import InterpretGPUParams
else:
    from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams


def interpret_params(*, detect_races=True):
    """With race detection; memory starts as NaN."""
    return InterpretGPUParams(detect_races=detect_races)


def check_no_race():
    """No two threads of the last kernel met at one address without a barrier between them."""
    assert not gpu_callbacks.get_races().races_found
