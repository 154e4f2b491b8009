"""Everyone sends one part to everyone."""

import jax
from jaxtyping import Array, PyTree

from parallel.collectives import legs
from parallel.collectives.axes import AxisName
from parallel.collectives.call import Call, open_call
from parallel.collectives.layout import canonical_dim, join_parts, split_parts
from parallel.collectives.pbroadcast import as_varying
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def all_to_all(
    x: PyTree[Array],
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    tiled: bool = False,
    codec: Codec = None,
) -> PyTree[Array]:
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
        codec: "exponent" or an `ExponentConfig` compresses what travels, None sends bits.

    Returns:
        The parts received, joined; typed as varying over `axis_name`.

    Raises:
        ArgumentError: when `split_axis` does not split into P parts, a dimension is out of
            range, the axis name is unbound or the codec is none.
    """
    call = open_call("all_to_all", axis_name, codec)
    return jax.tree.map(lambda leaf: _exchange_array(leaf, call, split_axis, concat_axis, tiled), x)


def _exchange_array(x: Array, call: Call, split_axis: int, concat_axis: int, tiled: bool) -> Array:
    x = as_varying(x, call)
    there = canonical_dim(split_axis, x.ndim, "split_axis")
    back = canonical_dim(concat_axis, x.ndim, "concat_axis")

    def exchange(x, call, split_axis, concat_axis):
        parts = split_parts(x, call.num_ranks, split_axis, tiled=tiled, what="split_axis")
        return join_parts(legs.exchange(parts, call), concat_axis, tiled=tiled)

    return apply_linear(
        lambda x, call: exchange(x, call, there, back),
        lambda x, call: exchange(x, call, back, there),
        x,
        call,
    )
