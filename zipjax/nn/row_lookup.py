"""Rows of a compressed table, found without decoding the table."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from pallas_kernels import decode_rows
from zipjax.nn.compressed_param import CompressedParam
from zipjax.nn.pieces import num_lead_axes


def can_look_up(table: Any, inputs: Int[Array, "*B"]) -> bool:
    """Whether looking rows up one by one decodes less than the table, and can be done.

    Args:
        table: the variable; one that is cut over a mesh or stacked is decoded whole.
        inputs: integers.
    """
    if not isinstance(table, CompressedParam):
        return False
    if jnp.issubdtype(inputs.dtype, jnp.signedinteger) and inputs.dtype.itemsize < 4:
        return False  # the plain layer's own arithmetic may overflow, and is to give what it gives
    tensor = table.get_value()
    return not num_lead_axes(tensor) and inputs.size < tensor.shape[0] != 1


def look_up(layer: Any, inputs: Int[Array, "*B"]) -> Array:
    """What `nnx.Embed` gives: rows in its dtype; NaN beyond the last; negative ones from the end.

    Args:
        layer: an `nnx.Embed` whose table is compressed and of one piece.
        inputs: integers.

    Returns:
        `layer.dtype` [..., features].
    """
    num_rows = layer.embedding.shape[0]
    if inputs.dtype.itemsize < 4:  # too narrow for the number of rows
        inputs = inputs.astype(jnp.int32)
    is_there = inputs < num_rows
    if jnp.issubdtype(inputs.dtype, jnp.signedinteger):
        is_there &= inputs >= -num_rows
        inputs = jnp.where(inputs < 0, inputs + num_rows, inputs)
    rows = decode_rows(layer.embedding.get_value(), inputs)
    (rows,) = layer.promote_dtype((rows,), dtype=layer.dtype, inexact=False)
    return jnp.where(is_there[..., None], rows, jnp.nan)
