"""The part of `zipjax selftest` that needs several devices, run as a process of its own."""

import sys
from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jax.sharding import PartitionSpec

import parallel
from pallas_kernels import ZipError

NUM_DEVICES = 4
_AXIS = "ranks"


def main() -> int:
    """Compare collectives with their twins on virtual devices, compressed and raw."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", NUM_DEVICES)
    x = _awkward_weights()
    gather = partial(parallel.all_gather, axis_name=_AXIS, tiled=True)
    gather_twin = partial(parallel.reference.all_gather, axis_name=_AXIS, tiled=True)
    psum = partial(parallel.psum, axis_name=_AXIS)
    psum_twin = partial(parallel.reference.psum, axis_name=_AXIS)
    _require_same("all_gather, raw", gather, gather_twin, x)
    _require_same("all_gather, compressed", partial(gather, codec="exponent"), gather_twin, x)
    _require_same("psum, raw", psum, psum_twin, x)
    _require_same("psum, compressed", partial(psum, codec="exponent"), psum_twin, x)
    return 0


def _awkward_weights() -> np.ndarray:
    """float32 [16, 4096]: values like weights, with a NaN, an infinity, a -0 and a subnormal."""
    x = np.random.default_rng(0).normal(0, 0.02, (NUM_DEVICES * 4, 4096)).astype(np.float32)
    x[0, :4] = [np.nan, np.inf, -0.0, 1e-42]
    return x


def _require_same(
    name: str,
    collective: Callable[[jax.Array], jax.Array],
    twin: Callable[[jax.Array], jax.Array],
    x: np.ndarray,
) -> None:
    if _run(collective, x).tobytes() != _run(twin, x).tobytes():
        raise ZipError(f"{name} must give the bits of its twin")


def _run(function: Callable[[jax.Array], jax.Array], x: np.ndarray) -> np.ndarray:
    """What every rank gets, one after the other."""
    mesh = jax.make_mesh((NUM_DEVICES,), (_AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec(_AXIS)
    return np.asarray(jax.jit(jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec))(x))


if __name__ == "__main__":
    sys.exit(main())
