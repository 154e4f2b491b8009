"""The gradient of `decode_matmul`: in x and bias, by the same op with the weight transposed.

    y = activation(z + b), z = x @ W
    dz = dy * activation'(z + b)      z is computed again: nothing but the arguments is kept
    dx = dz @ W.T                     the op itself, `adjoint`
    db = sum of dz over rows

The weight's streams are integers, whose tangents JAX fixes at zero (dtype float0): there is no way
to ask this function for more, and `api.decode_matmul` says what happens to who tries.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.ops.decode_matmul.call import Call
from pallas_kernels.ops.decode_matmul.reference import epilogue
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import matmul_dtype

Forward = Callable[[Call, jax.Array, CompressedTensor, jax.Array | None], jax.Array]
_Kept = tuple[jax.Array, CompressedTensor, jax.Array | None]


def differentiable(forward: Forward) -> Forward:
    """`forward` with a reverse-mode derivative in `x` and `bias`."""

    def keep(
        call: Call, x: jax.Array, weight: CompressedTensor, bias: jax.Array | None
    ) -> tuple[jax.Array, _Kept]:
        return forward(call, x, weight, bias), (x, weight, bias)

    def sums(call: Call, kept: _Kept, shape: tuple[int, ...]) -> jax.Array:
        x, weight, _ = kept
        dtype = np.dtype(jnp.promote_types(matmul_dtype(x.dtype, weight.dtype), np.float32))
        if call.activation is None:
            return jnp.zeros(shape, dtype)  # z does not matter
        return forward(dataclasses.replace(call, activation=None, out_dtype=dtype), x, weight, None)

    def backward(
        call: Call, kept: _Kept, dy: jax.Array
    ) -> tuple[jax.Array, None, jax.Array | None]:
        x, weight, bias = kept
        dz, dbias = dy, None
        if bias is not None or call.activation is not None:
            _, pull = jax.vjp(lambda z, b: epilogue(z, b, call), sums(call, kept, dy.shape), bias)
            dz, dbias = pull(dy)
        adjoint = dataclasses.replace(
            call, adjoint=True, activation=None, out_dtype=np.dtype(x.dtype)
        )
        return forward(adjoint, dz, weight, None).astype(x.dtype), None, dbias

    product = jax.custom_vjp(forward, nondiff_argnums=(0,))
    product.defvjp(keep, backward)
    return product
