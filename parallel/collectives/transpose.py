"""Pairs of linear maps that are each other's transpose, to any order of differentiation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Map = Callable[[jax.Array], jax.Array]


def apply_linear(apply: Map, transpose: Map, x: jax.Array) -> jax.Array:
    """Return `apply(x)`, with `transpose` as its vector-Jacobian product.

    The product may be differentiated in turn: its transpose is `apply` again. JAX never looks
    inside either, so no collective of its own choosing appears in a gradient. Integers and
    booleans have no derivative and are passed straight through.
    """
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return apply(x)

    @jax.custom_vjp
    def linear(x):
        return apply(x)

    def forward(x):
        # Not `apply(x)`: an outer differentiation sees this line, and must not see inside.
        return linear(x), None

    def backward(_, cotangent):
        return (apply_linear(transpose, apply, cotangent),)

    linear.defvjp(forward, backward)
    return linear(x)
