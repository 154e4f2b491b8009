"""Linear maps whose transposes we choose, to any order of differentiation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from parallel.collectives.call import Call

Map = Callable[[jax.Array, Call], jax.Array]


def apply_linear(apply: Map, transpose: Map, x: jax.Array, call: Call) -> jax.Array:
    """Return `apply(x, call)`, with `transpose` as its vector-Jacobian product.

    The product may be differentiated in turn: its transpose is `apply` again. JAX never looks
    inside either, so no collective of its own choosing appears in a gradient. Integers and
    booleans have no derivative and are passed straight through.
    """

    def apply_in_scope(x):
        with jax.named_scope(call.site.label):
            return apply(x, call)

    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return apply_in_scope(x)
    linear = jax.custom_vjp(apply_in_scope)

    def forward(x):
        # Not `apply`: an outer differentiation sees this line, and must not see inside.
        return linear(x), None

    def backward(_, cotangent):
        return (apply_linear(transpose, apply, cotangent, call.transposed()),)

    linear.defvjp(forward, backward)
    return linear(x)
