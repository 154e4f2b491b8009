"""`decompress_model`: every compressed matrix becomes the parameter that it was, in place."""

from typing import Any

import jax
from flax import nnx

from pallas_kernels import ArgumentError
from zipjax.compression.inventory import Held, take_inventory
from zipjax.compression.placement import plain_sharding
from zipjax.nn import CompressedParam, Twins, change_class, decode_pieces, plain_class, set_variable


def decompress_model(model: nnx.Module, *, twins: Twins | None = None) -> None:
    """Undo `compress_model`: classes, variables' types and metadata, and every bit.

    Args:
        model: changed in place, one matrix at a time.
        twins: as they were given to `compress_model`.

    Raises:
        ArgumentError: `model` is no module, or has a compressed layer of an unknown class.
    """
    if not isinstance(model, nnx.Module):
        raise ArgumentError("model must be an nnx.Module", got=type(model).__name__)
    inventory = [
        held for held in take_inventory(model) if isinstance(held.variable, CompressedParam)
    ]
    for held in inventory:
        _require_known(held, twins)
    while inventory:
        _restore(inventory.pop(0), twins)


def _require_known(held: Held, twins: Twins | None) -> None:
    for holder in held.holders:
        if plain_class(type(holder.node), twins) is None:
            raise ArgumentError(
                f"{holder.variable_path} must be in a layer with a known twin",
                got=type(holder.node).__name__,
                fix="pass the twins that compress_model was given",
            )


def _restore(held: Held, twins: Twins | None) -> None:
    param: Any = held.variable
    plain = param.plain.restore(_decode(param))
    for holder in held.holders:
        set_variable(holder.node, holder.name, plain)
        cls = plain_class(type(holder.node), twins)
        if cls is not None and not _holds_compressed(holder.node):
            change_class(holder.node, cls)


def _decode(param: CompressedParam) -> Any:
    """The array where it was: cut over the mesh as it was."""
    tensor, cut_dims = param.get_value(), param.get_metadata("cut_dims")
    sharding = plain_sharding(tensor, param.ndim - len(tensor.shape), cut_dims)
    if sharding is None:
        return decode_pieces(tensor, cut_dims)
    return jax.jit(decode_pieces, static_argnums=1, out_shardings=sharding)(tensor, cut_dims)


def _holds_compressed(node: Any) -> bool:
    return any(isinstance(held.variable, CompressedParam) for held in take_inventory(node))
