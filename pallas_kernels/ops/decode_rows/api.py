"""`decode_rows`: which backend looks rows up."""

from types import MappingProxyType

import jax.numpy as jnp

from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.ops.decode_rows import reference
from pallas_kernels.shapes import Array, Int, Shaped
from pallas_kernels.tensor import CompressedTensor

_BACKENDS = MappingProxyType({"xla": reference.decode_rows})


def decode_rows(
    weight: CompressedTensor,
    rows: Int[Array, "*batch"],
    *,
    implementation: Implementation = None,
) -> Shaped[Array, "*batch D"]:
    """decode(weight)[rows], decoding nothing but the tiles that these rows lie in.

    What is held besides the result: the tiles (4096 elements each) of 256 rows at a time. The bits
    are those of the encoded matrix. Rows out of range are taken as the nearest one, as `jnp.take`
    does with `mode="clip"`; negative ones are not counted from the end. Can be traced and
    vectorised over `rows`. Nothing here has a gradient: rows are integers and weights constants.

    Args:
        weight: a compressed matrix [V, D] of any dtype that JAX holds; V at least 1.
        rows: integers [...].
        implementation: "xla", names in the order to try, or None for the best there is.

    Returns:
        found: `weight.dtype` [..., D].

    Raises:
        ArgumentError: `weight` is no compressed matrix or has no rows, or `rows` no integers.
        UnsupportedError: a dtype that JAX cannot hold.
    """
    if not isinstance(weight, CompressedTensor) or weight.ndim != 2 or not weight.shape[0]:
        raise ArgumentError("weight must be a CompressedTensor [V, D] with rows", got=weight)
    rows = jnp.asarray(rows)
    if not jnp.issubdtype(rows.dtype, jnp.integer):
        raise ArgumentError("rows must be integers", got=rows.dtype)
    if rows.dtype.itemsize < 4:  # too narrow for the number of the last row
        rows = rows.astype(jnp.int32)
    rows = jnp.clip(rows, 0, weight.shape[0] - 1).astype(jnp.int32)
    return dispatch("decode_rows", _BACKENDS, implementation, weight, rows)
