"""Tiles of a flat array, and prefix sums."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.format import TILE_ELEMS, TILE_LANES, TILE_ROWS

_BLOCK = 16
_UP_TO = np.triu(np.ones((_BLOCK, _BLOCK), np.int32))  # [k, j]: k <= j


def to_tiles(flat: jax.Array, filler: jax.Array | int = 0) -> jax.Array:
    """[n] as [T, 16, 256], the rest of the last tile `filler`.

    Whole tiles and the last one are put together as tiles: padding the flat array would make XLA on
    CPU ask for every element whether it is one, at twice the time.
    """
    rest = flat.size % TILE_ELEMS
    whole = lax.slice(flat, (0,), (flat.size - rest,)).reshape(-1, TILE_ROWS, TILE_LANES)
    if not rest:
        return whole
    last = lax.slice(flat, (flat.size - rest,), (flat.size,))
    last = lax.pad(last, jnp.asarray(filler, flat.dtype), ((0, TILE_ELEMS - rest, 0),))
    return jnp.concatenate([whole, last.reshape(1, TILE_ROWS, TILE_LANES)])


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
