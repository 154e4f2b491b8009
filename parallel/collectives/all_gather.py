"""Everyone gets everyone's array."""

import jax
from jax import lax

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, axis_tuple
from parallel.collectives.layout import canonical_dim, join_parts, split_parts
from parallel.collectives.pbroadcast import broadcast_array
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def all_gather(x, axis_name: AxisName, *, axis: int = 0, tiled: bool = False, codec: Codec = None):
    """Gather `x` from all ranks of `axis_name`: the bits of `jax.lax.all_gather`.

    The gradient is our `psum_scatter` with the same codec.

    Args:
        x: array or pytree of arrays, any dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        axis: where the ranks go in the result: a new dimension, or with `tiled` an existing one.
        tiled: concatenate along `axis` instead of stacking.
        codec: "exponent" compresses what travels, None sends bits as they are.

    Returns:
        `x` with a dimension of P ranks at `axis`, or with `axis` P times as long. It is typed as
        varying over `axis_name`, as in `jax.lax`.

    Raises:
        ArgumentError: when `axis` is out of range.
    """
    names = axis_tuple(axis_name)
    return jax.tree.map(lambda leaf: _gather_array(leaf, names, axis, tiled, codec), x)


def _gather_array(x, names: legs.Names, axis: int, tiled: bool, codec: Codec) -> jax.Array:
    x = broadcast_array(x, names, codec)
    axis = canonical_dim(axis, x.ndim + (not tiled), "axis")

    def gather(x):
        return join_parts(legs.gather(x, names, codec), axis, tiled=tiled)

    def scatter(x):
        parts = split_parts(x, lax.axis_size(names), axis, tiled=tiled, what="axis")
        return legs.reduce_scatter(parts, names, codec)

    return apply_linear(gather, scatter, x)
