"""From "equal on all ranks" to "varying": no bytes forward, a psum backward."""

import jax
import jax.numpy as jnp

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, axis_tuple, make_varying, missing_axes
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def pbroadcast(x, axis_name: AxisName, *, codec: Codec = None):
    """Type `x` as varying over `axis_name`, so that its gradient is summed by our `psum`.

    JAX does this by itself where an operand that is equal on all ranks (a parameter, say) meets
    one that varies, and then sums the gradient by `lax.psum`. Call it first, and the gradient is
    summed in rank order and compressed. Axes over which `x` varies already are left alone.

    Args:
        x: array or pytree of arrays, any dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        codec: how the gradient travels; see `psum`.

    Returns:
        `x`, with the same values.
    """
    return jax.tree.map(lambda leaf: broadcast_array(leaf, axis_tuple(axis_name), codec), x)


def broadcast_array(x: jax.Array, names: legs.Names, codec: Codec) -> jax.Array:
    """Broadcast one array; every collective does this to its operand first."""
    x = jnp.asarray(x)
    missing = missing_axes(x, names)
    if not missing:
        return x
    return apply_linear(
        lambda x: make_varying(x, missing), lambda x: legs.reduce(x, missing, codec), x
    )
