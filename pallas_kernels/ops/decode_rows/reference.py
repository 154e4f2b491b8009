"""The `xla` backend of `decode_rows`: each row's tiles and patches, 256 rows at a time."""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import can_decode_rows, decode_row_block, decode_whole

# Tiles of this many rows are in memory at once.
BATCH_ROWS = 256


@jax.jit
def decode_rows(weight: CompressedTensor, rows: jax.Array) -> jax.Array:
    """See `api.decode_rows`; `rows` are in range."""
    row_elems = weight.shape[1]
    if not (rows.size and row_elems):
        return jnp.zeros((*rows.shape, row_elems), weight.dtype)
    if not can_decode_rows(weight):
        return jnp.take(decode_whole(weight), rows, axis=0, mode="clip")

    def decode(row: jax.Array) -> jax.Array:
        return decode_row_block(weight, row, 1, row_elems)[0]

    flat = rows.reshape(-1)
    if flat.size <= BATCH_ROWS:
        found = jax.vmap(decode)(flat)
    else:
        found = lax.map(decode, flat, batch_size=BATCH_ROWS)
    return found.reshape(*rows.shape, row_elems)
