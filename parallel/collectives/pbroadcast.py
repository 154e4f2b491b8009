"""From "equal on all ranks" to "varying": no bytes forward, a psum backward."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, make_varying, missing_axes, types_are_tracked
from parallel.collectives.call import Call, open_call
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def pbroadcast(x: PyTree[Array], axis_name: AxisName, *, codec: Codec = None) -> PyTree[Array]:
    """Type `x` as varying over `axis_name`, so that its gradient is summed by our `psum`.

    JAX does this by itself where an operand that is equal on all ranks (a parameter, say) meets
    one that varies, and then sums the gradient by `lax.psum`. Call it first, and the gradient is
    summed in rank order and compressed. Axes over which `x` varies already are left alone, and
    so is everything under check_vma=False.

    Args:
        x: array or pytree of arrays, any dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        codec: how the gradient travels; see `psum`.

    Returns:
        `x`, with the same values.

    Raises:
        ArgumentError: when the axis is unbound or the codec is none.
    """
    call = open_call("pbroadcast", axis_name, codec)
    return jax.tree.map(lambda leaf: as_varying(leaf, call), x)


def as_varying(x: Array, call: Call) -> Array:
    """Broadcast one array; every collective does this to its operands first."""
    x = jnp.asarray(x)
    missing = missing_axes(x, call.names)
    if not missing or not types_are_tracked(call.names):
        return x
    return apply_linear(
        lambda x, call: make_varying(x, call.names), legs.reduce, x, replace(call, names=missing)
    )
