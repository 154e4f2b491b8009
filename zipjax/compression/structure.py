"""What a compressed model looks like without its arrays, as JSON beside a checkpoint.

The length of a tensor's lists depends on its data, so a model's code alone does not tell the shapes
of a compressed checkpoint. `structure_of` writes them down, `set_structure` gives them to an
abstract model, and any library that restores a pytree of arrays does the rest.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding

from pallas_kernels import CompressedTensor, FormatError, dtype_from_name, dtype_name, stream_specs
from zipjax.compression.inventory import Held, Holder, take_inventory
from zipjax.compression.placement import stream_sharding
from zipjax.nn import (
    CompressedParam,
    Twins,
    become_twin,
    find_twin,
    get_variable,
    set_compressed,
)

VERSION = 1


def structure_of(model: nnx.Module) -> dict[str, Any]:
    """Describe the compressed matrices of a model.

    Args:
        model: compressed.

    Returns:
        JSON: the codec, dtype and sizes of every compressed matrix by its path.
    """
    held = [one for one in take_inventory(model) if isinstance(one.variable, CompressedParam)]
    matrices = {one.holders[0].variable_path: _describe(one.variable) for one in held}
    return {"version": VERSION, "matrices": matrices}


def set_structure(
    model: nnx.Module,
    structure: Mapping[str, Any],
    *,
    twins: Twins | None = None,
) -> None:
    """Turn an abstract plain model into the abstract compressed one, ready for restoring arrays.

    Args:
        model: from `nnx.eval_shape`; changed in place. Where its arrays have a sharding on a mesh,
            the streams get the one that goes with it.
        structure: from `structure_of`.
        twins: as they were given to `compress_model`.

    Raises:
        FormatError: the structure is damaged, or of another model.
        UnsupportedError: a codec or layout from another version.
    """
    if structure.get("version") != VERSION:
        raise FormatError(
            f"the structure must be of version {VERSION}", got=structure.get("version")
        )
    inventory = {held.holders[0].variable_path: held for held in take_inventory(model)}
    matrices = structure["matrices"]
    missing = sorted(set(matrices) - set(inventory))
    if missing:
        raise FormatError("the structure must be of this model", got=f"no {missing[0]} in it")
    for path, described in matrices.items():
        _set_one(inventory[path], described, twins)


def _describe(param: CompressedParam) -> dict[str, Any]:
    tensor = param.get_raw_value()
    return {
        "codec": tensor.codec,
        "layout": tensor.layout,
        "dtype": dtype_name(tensor.dtype),
        "shape": list(tensor.shape),
        "cut_dims": list(param.get_metadata("cut_dims")),
        "streams": {name: list(stream.shape) for name, stream in tensor.streams.items()},
    }


def _set_one(held: Held, described: Mapping[str, Any], twins: Twins | None) -> None:
    first = held.holders[0]
    try:
        tensor = _abstract_tensor(described)
        cut_dims = tuple(described["cut_dims"])
        num_stacked = len(described["streams"]["exponents"]) - 1 - len(cut_dims)
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{first.variable_path} must be described whole", got=error) from error
    plain: Any = held.variable.get_raw_value()
    if isinstance(plain.sharding, NamedSharding):
        target = stream_sharding(plain.sharding, num_stacked, cut_dims)
        tensor = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=target), tensor
        )
    name = first.name
    set_compressed(
        first.node, {name: tensor}, cut_dims={name: cut_dims}, twin=_twin_class(first, twins)
    )
    param = get_variable(first.node, name)
    for holder in held.holders[1:]:
        become_twin(holder.node, _twin_class(holder, twins), {holder.name: param})


def _twin_class(holder: Holder, twins: Twins | None) -> type[nnx.Module]:
    twin = find_twin(type(holder.node), twins)
    if twin is None:
        raise FormatError(
            f"{holder.variable_path} must be in a layer with a twin", got=type(holder.node).__name__
        )
    return twin.cls


def _abstract_tensor(described: Mapping[str, Any]) -> CompressedTensor:
    codec, layout = described["codec"], described["layout"]
    dtype, shape = dtype_from_name(described["dtype"]), tuple(described["shape"])
    specs = stream_specs(codec, layout, dtype, shape)
    sizes = described["streams"]
    streams = {
        name: jax.ShapeDtypeStruct(tuple(sizes[name]), spec.dtype) for name, spec in specs.items()
    }
    return CompressedTensor(codec, layout, np.dtype(dtype), shape, streams)
