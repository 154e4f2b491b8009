"""The `xla` backend of `decode_matmul`: plain `jnp`, and the twin that kernels are compared with.

Two ways to do it, of which the caller chooses one (`hold`):

    matrix    w = decode(weight);  y = x @ w
    block     for rows r of the stored matrix, as it lies in memory:
                  w = decode(weight)[r]
                  stored [N, K]:  y[:, r]  = x @ w.T             each element summed in one go
                  stored [K, N]:  y       += x[:, r] @ w         summed block by block, in float32

Only the first has the bits of the plain product. Cutting N changes no sum on paper; but XLA's
libraries on CPU choose the order of a sum by the shape of the whole product, so it does there.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.ops.decode_matmul.call import ACTIVATIONS, Call
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import (
    can_decode_rows,
    decode_row_block,
    decode_whole,
    decoded_after,
    matmul_dtype,
)

# A block's decoded rows: a quarter of the level-2 cache of a small CPU core, a fifth of a percent
# of a large matrix; smaller blocks make the loop itself felt.
BLOCK_ELEMS = 1 << 18


def decode_matmul(
    call: Call, x: jax.Array, weight: CompressedTensor, bias: jax.Array | None
) -> jax.Array:
    """See `api.decode_matmul`; arguments are checked there."""
    dtype = matmul_dtype(x.dtype, weight.dtype)
    is_plain = bias is None and call.activation is None
    # Without an epilogue XLA is asked for what `x @ w` asks for, so that the bits are the same.
    want = jnp.promote_types(dtype, call.out_dtype if is_plain else np.float32)
    multiply = _by_block if _cuts(call, weight) else _at_once
    y = multiply(x.astype(dtype), weight, call, want)
    return epilogue(y, bias, call)


def epilogue(z: jax.Array, bias: jax.Array | None, call: Call) -> jax.Array:
    """activation(z + bias) in the dtype of `z`, at the end converted to `call.out_dtype`."""
    if bias is not None:
        z = z + bias.astype(z.dtype).reshape((1,) * (z.ndim - 1) + (-1,))
    if call.activation is not None:
        z = ACTIVATIONS[call.activation](z)
    return z.astype(call.out_dtype)


def _cuts(call: Call, weight: CompressedTensor) -> bool:
    """Whether there is more than one block, and a way to decode one."""
    return call.hold == "block" and weight.size > BLOCK_ELEMS and can_decode_rows(weight)


def _at_once(x: jax.Array, weight: CompressedTensor, call: Call, dtype: np.dtype) -> jax.Array:
    # The barrier keeps XLA from fusing the decoder into the product, whose bits would change. And
    # the matrix is transposed as `x @ w.T` does it: on CPU, other words for it have other bits.
    w = lax.optimization_barrier(decode_whole(decoded_after(weight, x))).astype(x.dtype)
    if call.transpose and not call.adjoint:
        return _dot(x, w.T, False, dtype)
    return _dot(x, w, call.contracts_rows, dtype)


def _by_block(x: jax.Array, weight: CompressedTensor, call: Call, dtype: np.dtype) -> jax.Array:
    """The loop; rows that do not fill a block come last, by themselves."""
    num_rows, row_elems = weight.shape
    height = min(num_rows, max(1, BLOCK_ELEMS // row_elems))
    sum_dtype = jnp.promote_types(dtype, np.float32)
    lead = x.shape[:-1]
    x = x.reshape(-1, x.shape[-1])

    def step(row: jax.Array | int, height: int, y: jax.Array) -> jax.Array:
        w = decode_row_block(weight, row, height, row_elems)
        w = lax.optimization_barrier(w).astype(x.dtype)
        if call.contracts_rows:
            return lax.dynamic_update_slice_in_dim(y, _dot(x, w, True, dtype), row, 1)
        part = lax.dynamic_slice_in_dim(x, row, height, 1)
        return y + _dot(part, w, False, sum_dtype)

    num_out = num_rows if call.contracts_rows else row_elems
    y = jnp.zeros((x.shape[0], num_out), dtype if call.contracts_rows else sum_dtype)
    num_blocks, rest = divmod(num_rows, height)
    y = lax.fori_loop(0, num_blocks, lambda i, y: step(i * height, height, y), y)
    if rest:
        y = step(num_blocks * height, rest, y)
    return y.astype(dtype).reshape(*lead, num_out)


def _dot(x: jax.Array, w: jax.Array, adjoint: bool, dtype: np.dtype) -> jax.Array:
    """x @ w, or x @ w.T, as `jnp.matmul` and its gradient write it."""
    contracted = (((x.ndim - 1,), (1 if adjoint else 0,)), ((), ()))
    return lax.dot_general(x, w, contracted, preferred_element_type=dtype)
