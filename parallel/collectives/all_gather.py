"""Everyone gets everyone's array."""

import jax
from jaxtyping import Array, PyTree

from parallel.collectives import legs
from parallel.collectives.axes import AxisName
from parallel.collectives.call import Call, open_call
from parallel.collectives.layout import canonical_dim, join_parts, split_parts
from parallel.collectives.pbroadcast import as_varying
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def all_gather(
    x: PyTree[Array],
    axis_name: AxisName,
    *,
    axis: int = 0,
    tiled: bool = False,
    codec: Codec = None,
) -> PyTree[Array]:
    """Gather `x` from all ranks of `axis_name`: the bits of `jax.lax.all_gather`.

    The gradient is our `psum_scatter` with the same codec.

    Args:
        x: array or pytree of arrays, any dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        axis: where the ranks go in the result: a new dimension, or with `tiled` an existing one.
        tiled: concatenate along `axis` instead of stacking.
        codec: "exponent" or an `ExponentConfig` compresses what travels, None sends bits.

    Returns:
        `x` with a dimension of P ranks at `axis`, or with `axis` P times as long. It is typed as
        varying over `axis_name`, as in `jax.lax`.

    Raises:
        ArgumentError: when `axis` is out of range, the axis name is unbound or the codec is none.
    """
    call = open_call("all_gather", axis_name, codec)
    return jax.tree.map(lambda leaf: _gather_array(leaf, call, axis, tiled), x)


def _gather_array(x: Array, call: Call, axis: int, tiled: bool) -> Array:
    x = as_varying(x, call)
    axis = canonical_dim(axis, x.ndim + (not tiled), "axis")

    def gather(x, call):
        return join_parts(legs.gather(x, call), axis, tiled=tiled)

    def scatter(x, call):
        parts = split_parts(x, call.num_ranks, axis, tiled=tiled, what="axis")
        return legs.reduce_scatter(parts, call)

    return apply_linear(gather, scatter, x, call)
