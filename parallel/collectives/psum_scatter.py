"""Everyone gets the sum of everyone's part for it."""

import jax
from jax import lax

from parallel.collectives import legs
from parallel.collectives.axes import AxisName, axis_tuple
from parallel.collectives.layout import canonical_dim, join_parts, split_parts
from parallel.collectives.pbroadcast import broadcast_array
from parallel.collectives.rank_sum import require_summable
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def psum_scatter(
    x,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    tiled: bool = False,
    codec: Codec = None,
):
    """Sum over the ranks of `axis_name` and keep one part of the sum on each.

    The shapes are those of `jax.lax.psum_scatter`, the sum is not: it adds in rank order in
    float32 and rounds once (`rank_sum`), with any codec. `lax.psum_scatter` adds in an order and
    a precision of the backend's choice, and on CPU it has returned wrong sums; it is not used.
    The gradient is our `all_gather` with the same codec.

    Args:
        x: array or pytree of arrays of any numeric dtype.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        scatter_dimension: the dimension that is cut into one part per rank.
        tiled: the dimension stays, 1/P as long; otherwise it must be P long and goes.
        codec: "exponent" compresses what travels, None sends bits as they are.

    Returns:
        Rank p's part of the sum, in the dtype of `x`, typed as varying over `axis_name`.

    Raises:
        ArgumentError: when the dimension does not split into P parts, or for booleans.
    """
    names = axis_tuple(axis_name)
    return jax.tree.map(
        lambda leaf: _scatter_array(leaf, names, scatter_dimension, tiled, codec), x
    )


def _scatter_array(x, names: legs.Names, dim: int, tiled: bool, codec: Codec) -> jax.Array:
    x = require_summable(broadcast_array(x, names, codec))
    dim = canonical_dim(dim, x.ndim, "scatter_dimension")

    def scatter(x):
        parts = split_parts(x, lax.axis_size(names), dim, tiled=tiled, what="scatter_dimension")
        return legs.reduce_scatter(parts, names, codec)

    def gather(x):
        return join_parts(legs.gather(x, names, codec), dim, tiled=tiled)

    return apply_linear(scatter, gather, x)
