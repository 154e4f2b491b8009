"""The gradient of `grouped_decode_matmul` in x: the op itself, its matrices transposed.

Compressed weights and group sizes are integers, whose tangents JAX fixes at zero; plain weights
could have a gradient, so asking for it is refused. Rows of no group have none, having no output.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from pallas_kernels.errors import ArgumentError
from pallas_kernels.ops.grouped_decode_matmul.call import Call
from pallas_kernels.ops.grouped_decode_matmul.reference import Weights

Forward = Callable[[Call, jax.Array, Weights, jax.Array], jax.Array]
_Kept = tuple[jax.Array, Weights, jax.Array]


def differentiable(forward: Forward) -> Forward:
    """`forward` with a reverse-mode derivative in `x`."""

    def keep(call: Call, x: Any, weights: Any, group_sizes: Any) -> tuple[jax.Array, _Kept]:
        if any(leaf.perturbed for leaf in jax.tree.leaves(weights, is_leaf=_is_primal)):
            raise ArgumentError(
                "grouped_decode_matmul has no gradient in its weights",
                fix="train plain weights with jnp.einsum, or low-rank adapters (LoRA) beside these",
            )
        x, weights, group_sizes = (_values(operand) for operand in (x, weights, group_sizes))
        # Of x only the dtype is needed, and only arrays can be kept: none of its rows.
        return forward(call, x, weights, group_sizes), (x[:0], weights, group_sizes)

    def backward(call: Call, kept: _Kept, dy: Any) -> tuple[jax.Array, None, None]:
        no_rows, weights, group_sizes = kept
        if isinstance(dy, SymbolicZero):
            dy = jnp.zeros(dy.shape, dy.dtype)
        adjoint = dataclasses.replace(call, adjoint=True, out_dtype=np.dtype(no_rows.dtype))
        return forward(adjoint, dy, weights, group_sizes), None, None

    product = jax.custom_vjp(forward, nondiff_argnums=(0,))
    product.defvjp(keep, backward, symbolic_zeros=True)
    return product


def _is_primal(node: Any) -> bool:
    return hasattr(node, "perturbed")


def _values(operand: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.value, operand, is_leaf=_is_primal)
