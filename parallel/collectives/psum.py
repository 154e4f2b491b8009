"""Everyone gets the sum."""

import jax
from jaxtyping import Array, PyTree

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, make_varying, types_are_tracked
from parallel.collectives.call import Call, open_call
from parallel.collectives.pbroadcast import as_varying
from parallel.collectives.rank_sum import require_summable
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def psum(x: PyTree[Array], axis_name: AxisName, *, codec: Codec = None) -> PyTree[Array]:
    """Sum over the ranks of `axis_name`, in rank order in float32, rounded once.

    Unlike `jax.lax.psum`, which adds in an order and a precision of the backend's choice, the
    result has the same bits in every run and with any codec: those of "gather, add in rank
    order, round once" (`rank_sum`). The gradient moves no bytes: it is equal on all ranks. (Under
    check_vma=False, where JAX cannot know that, it is a psum again, as in `jax.lax`.)

    Args:
        x: array or pytree of arrays of any numeric dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        codec: "exponent" or an `ExponentConfig` compresses what travels, None sends bits.

    Returns:
        The sum in the dtype and shape of `x`, typed as equal on all ranks of `axis_name`, so
        that it may leave `jax.shard_map` by `out_specs=P()`.

    Raises:
        ArgumentError: for booleans, when the axis name is unbound or the codec is none.
    """
    call = open_call("psum", axis_name, codec)
    return jax.tree.map(lambda leaf: _sum_array(leaf, call), x)


def _sum_array(x: Array, call: Call) -> Array:
    x = require_summable(as_varying(x, call))
    transpose = _spread if types_are_tracked(call.names) else legs.reduce
    return apply_linear(legs.reduce, transpose, x, call)


def _spread(x: Array, call: Call) -> Array:
    return make_varying(x, call.names)
