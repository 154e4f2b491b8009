"""Everyone gets the sum."""

import jax

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, axis_tuple, make_varying
from parallel.collectives.pbroadcast import broadcast_array
from parallel.collectives.rank_sum import require_summable
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def psum(x, axis_name: AxisName, *, codec: Codec = None):
    """Sum over the ranks of `axis_name`, in rank order in float32, rounded once.

    Unlike `jax.lax.psum`, which adds in an order and a precision of the backend's choice, the
    result has the same bits on every backend and in every run, with any codec: those of "gather,
    add in rank order, round once" (`rank_sum`). The gradient moves no bytes.

    Args:
        x: array or pytree of arrays of any numeric dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        codec: "exponent" compresses what travels, None sends bits as they are.

    Returns:
        The sum in the dtype and shape of `x`, typed as equal on all ranks of `axis_name`, so
        that it may leave `jax.shard_map` by `out_specs=P()`.

    Raises:
        ArgumentError: for booleans.
    """
    names = axis_tuple(axis_name)
    return jax.tree.map(lambda leaf: _sum_array(leaf, names, codec), x)


def _sum_array(x, names: legs.Names, codec: Codec) -> jax.Array:
    x = require_summable(broadcast_array(x, names, codec))
    return apply_linear(lambda x: legs.reduce(x, names, codec), lambda x: make_varying(x, names), x)
