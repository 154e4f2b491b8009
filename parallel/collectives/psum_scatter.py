"""Everyone gets the sum of everyone's part for it."""

import jax
from jaxtyping import Array, PyTree

from parallel.collectives import legs
from parallel.collectives.axes import AxisName
from parallel.collectives.call import Call, open_call
from parallel.collectives.layout import canonical_dim, join_parts, split_parts
from parallel.collectives.pbroadcast import as_varying
from parallel.collectives.rank_sum import require_summable
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def psum_scatter(
    x: PyTree[Array],
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    tiled: bool = False,
    codec: Codec = None,
) -> PyTree[Array]:
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
        codec: "exponent" or an `ExponentConfig` compresses what travels, None sends bits.

    Returns:
        Rank p's part of the sum, in the dtype of `x`, typed as varying over `axis_name`.

    Raises:
        ArgumentError: when the dimension does not split into P parts, for booleans, when the
            axis name is unbound or the codec is none.
    """
    call = open_call("psum_scatter", axis_name, codec)
    return jax.tree.map(lambda leaf: _scatter_array(leaf, call, scatter_dimension, tiled), x)


def _scatter_array(x: Array, call: Call, dim: int, tiled: bool) -> Array:
    x = require_summable(as_varying(x, call))
    dim = canonical_dim(dim, x.ndim, "scatter_dimension")

    def scatter(x, call):
        parts = split_parts(x, call.num_ranks, dim, tiled=tiled, what="scatter_dimension")
        return legs.reduce_scatter(parts, call)

    def gather(x, call):
        return join_parts(legs.gather(x, call), dim, tiled=tiled)

    return apply_linear(scatter, gather, x, call)
