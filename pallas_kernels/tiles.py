"""What the `xla` backends of several ops do with tiles: plain `jnp`, shaped for XLA."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.format import TILE_ELEMS, TILE_LANES, TILE_ROWS, num_tiles

_BLOCK = 16
_UP_TO = np.triu(np.ones((_BLOCK, _BLOCK), np.int32))  # [k, j]: k <= j


def to_tiles(flat: jax.Array, filler: jax.Array | int = 0) -> jax.Array:
    """[n] as [T, 16, 256], the rest of the last tile `filler`."""
    missing = num_tiles(flat.size) * TILE_ELEMS - flat.size
    if missing:
        flat = lax.pad(flat, jnp.asarray(filler, flat.dtype), ((0, missing, 0),))
    return flat.reshape(-1, TILE_ROWS, TILE_LANES)


def prefix_sum(x: jax.Array) -> jax.Array:
    """Inclusive prefix sums of small counts: int32 [n].

    In two levels, 16 by a triangular reduce and a cumsum over a 16th: half the time of `cumsum` on
    CPU, whose scan goes over the whole array once per octave.
    """
    x = x.astype(jnp.int32)
    padded = jnp.pad(x, (0, -x.size % _BLOCK)).reshape(-1, _BLOCK)
    inner = lax.reduce(padded[:, :, None] * _UP_TO[None], np.int32(0), lax.add, (1,))
    before = jnp.cumsum(inner[:, -1]) - inner[:, -1]
    return (inner + before[:, None]).reshape(-1)[: x.size]
