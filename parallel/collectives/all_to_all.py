"""Everyone sends one part to everyone."""

import jax
from jax import lax

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, axis_tuple
from parallel.collectives.layout import canonical_dim, join_parts, split_parts
from parallel.collectives.pbroadcast import broadcast_array
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def all_to_all(
    x,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    tiled: bool = False,
    codec: Codec = None,
):
    """Cut `x` along `split_axis`, send part q to rank q, join what comes along `concat_axis`.

    Returns the bits of `jax.lax.all_to_all`. The gradient is the way back: our `all_to_all` with
    the two axes exchanged and the same codec.

    Args:
        x: array or pytree of arrays, any dtype.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        split_axis: the dimension that is cut into one part per rank.
        concat_axis: the dimension along which the parts received are joined in rank order.
        tiled: both dimensions exist before and after; otherwise `split_axis` must be P long and
            goes, and the ranks become a new dimension at `concat_axis`.
        codec: "exponent" compresses what travels, None sends bits as they are.

    Returns:
        The parts received, joined; typed as varying over `axis_name`.

    Raises:
        ArgumentError: when `split_axis` does not split into P parts or an axis is out of range.
    """
    names = axis_tuple(axis_name)
    return jax.tree.map(
        lambda leaf: _exchange_array(leaf, names, split_axis, concat_axis, tiled, codec), x
    )


def _exchange_array(
    x, names: legs.Names, split_axis: int, concat_axis: int, tiled: bool, codec: Codec
) -> jax.Array:
    x = broadcast_array(x, names, codec)
    split_axis = canonical_dim(split_axis, x.ndim, "split_axis")
    concat_axis = canonical_dim(concat_axis, x.ndim, "concat_axis")

    def exchange(x, split_axis, concat_axis):
        parts = split_parts(x, lax.axis_size(names), split_axis, tiled=tiled, what="split_axis")
        parts = legs.exchange(parts, names, codec)
        return join_parts(parts, concat_axis, tiled=tiled)

    return apply_linear(
        lambda x: exchange(x, split_axis, concat_axis),
        lambda x: exchange(x, concat_axis, split_axis),
        x,
    )
