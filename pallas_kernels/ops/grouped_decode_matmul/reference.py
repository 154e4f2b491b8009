"""The `xla` backend of `grouped_decode_matmul`: one expert in memory, its rows block by block.

    for e in experts that have rows:
        w = decode(weights)[e]
        for each block of 128 rows of group e, the last one overlapping its neighbours:
            y[those of the block that are in the group] = x[block] @ w

Work is that of ceil(rows / 128) blocks an expert; there is no [T, E] operand. `weights` may also be
a plain array: then the very same products are taken, so the two are equal on bits.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.ops.grouped_decode_matmul.call import Call
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import can_decode_rows, decode_row_block, decode_whole, matmul_dtype

BLOCK_ROWS = 128
Weights = CompressedTensor | jax.Array


def grouped_matmul(call: Call, x: jax.Array, weights: Weights, group_sizes: jax.Array) -> jax.Array:
    """See `api.grouped_decode_matmul`; arguments are checked there."""
    num_experts, rows, columns = weights.shape
    num_out = rows if call.contracts_rows else columns
    y = jnp.zeros((x.shape[0], num_out), call.out_dtype)
    if not (y.size and weights.size):
        return y
    if isinstance(weights, CompressedTensor) and not can_decode_rows(weights):
        weights = lax.optimization_barrier(decode_whole(weights))
    dtype = matmul_dtype(x.dtype, np.dtype(weights.dtype))
    x = x.astype(dtype)
    # Rows beyond the last group, and groups beyond the last row, are nobody's.
    ends = jnp.minimum(jnp.cumsum(group_sizes.astype(jnp.int32)), x.shape[0])
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])

    def multiply_group(expert: jax.Array, y: jax.Array) -> jax.Array:
        w = lax.optimization_barrier(_expert(weights, expert)).astype(dtype)
        return _rows_of_group(call, x, w, y, starts[expert], ends[expert])

    def step(expert: jax.Array, y: jax.Array) -> jax.Array:
        has_rows = starts[expert] < ends[expert]
        return lax.cond(has_rows, multiply_group, lambda _, y: y, expert, y)

    return lax.fori_loop(0, num_experts, step, y)


def _expert(weights: Weights, expert: jax.Array) -> jax.Array:
    """One expert's matrix."""
    if not isinstance(weights, CompressedTensor):
        return lax.dynamic_index_in_dim(weights, expert, keepdims=False)
    num_experts, *shape = weights.shape
    return decode_row_block(weights, expert, 1, weights.size // num_experts).reshape(shape)


def _rows_of_group(
    call: Call, x: jax.Array, w: jax.Array, y: jax.Array, start: jax.Array, end: jax.Array
) -> jax.Array:
    """y with the rows `start .. end` filled in."""
    height = min(BLOCK_ROWS, x.shape[0])
    dtype = jnp.promote_types(x.dtype, call.out_dtype)
    contracted = (((1,), (1 if call.contracts_rows else 0,)), ((), ()))

    def block(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        at, y = state
        begin = jnp.minimum(at, x.shape[0] - height)
        rows = lax.dynamic_slice_in_dim(x, begin, height)
        part = lax.dot_general(rows, w, contracted, preferred_element_type=dtype)
        number = begin + jnp.arange(height, dtype=jnp.int32)[:, None]
        old = lax.dynamic_slice_in_dim(y, begin, height)
        part = jnp.where((number >= at) & (number < end), part.astype(y.dtype), old)
        return at + height, lax.dynamic_update_slice_in_dim(y, part, begin, 0)

    return lax.while_loop(lambda state: state[0] < end, block, (start, y))[1]
