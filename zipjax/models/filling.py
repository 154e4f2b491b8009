"""Give a parameter of an abstract model its values, plain or compressed, where it shall live."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from pallas_kernels import CompressedTensor, FormatError, dtype_name
from zipjax.array import decompress
from zipjax.compression.placement import cuts_of, place_streams
from zipjax.files.tensor_source import TensorSource
from zipjax.models.causal_lm import CausalLM
from zipjax.models.hf_names import Slot
from zipjax.nn import TWINS, encode_pieces, encode_stack, set_compressed

Sources = Mapping[str, TensorSource]
_PART_ELEMS = 1 << 22


def fill_plain(
    model: CausalLM, slot: Slot, sources: Sources, sharding: jax.sharding.Sharding | None
) -> None:
    """Read a parameter and put it on its device, or devices."""
    module, leaf = module_of(model, slot), str(slot.path[-1])
    value = jax.device_put(_read_param(slot, sources), sharding)
    setattr(module, leaf, type(getattr(module, leaf))(value))


def fill_compressed(
    model: CausalLM, slot: Slot, sources: Sources, sharding: jax.sharding.Sharding | None
) -> bool:
    """Read a parameter, compress it in host memory, and put its streams on the device.

    Returns:
        False, with the model unchanged, where it would not get smaller.
    """
    module, leaf = module_of(model, slot), str(slot.path[-1])
    like = jax.ShapeDtypeStruct(slot.shape, _dtype(slot, sources), sharding=sharding)
    num_stacked = int(slot.stacked)
    cuts = cuts_of(like, num_stacked)
    pieces = _read_pieces(slot, sources)
    if slot.stacked:
        tensor = encode_stack(pieces, len(slot.names), cuts=cuts)
    else:
        tensor = encode_pieces(next(pieces), cuts=cuts)
    if tensor is None:
        return False
    cut_dims = tuple(dim for dim, cut in enumerate(cuts) if cut > 1)
    placed: CompressedTensor = place_streams(tensor, like, num_stacked, cut_dims)
    setattr(module, leaf, type(getattr(module, leaf))(like))
    set_compressed(module, {leaf: placed}, cut_dims={leaf: cut_dims})
    return True


def is_compressible(model: CausalLM, slot: Slot) -> bool:
    """Whether the layer of a parameter can compute with it compressed."""
    module = module_of(model, slot)
    plain = {twin.cls: twin for twin in TWINS.values()} | dict(TWINS)
    twin = plain.get(type(module))
    return twin is not None and slot.path[-1] in twin.matrix_ndims(module)


def module_of(model: CausalLM, slot: Slot) -> Any:
    """The layer that holds a parameter."""
    node: Any = model
    for key in slot.path[:-1]:
        node = node[key] if isinstance(key, int) else getattr(node, key)
    return node


def _read_param(slot: Slot, sources: Sources) -> np.ndarray:
    """The values of one parameter, in the dtype of the file, its experts stacked."""
    if not slot.stacked:
        return next(_read_pieces(slot, sources))
    stack = np.empty(slot.shape, _dtype(slot, sources))
    for idx, piece in enumerate(_read_pieces(slot, sources)):
        stack[idx] = piece
    return stack


def _read_pieces(slot: Slot, sources: Sources) -> Iterator[np.ndarray]:
    for name in slot.names:
        source = sources[name]
        if slot.transposed:
            yield _read_transposed(source)
        else:
            yield np.asarray(decompress(source.read()))


def _read_transposed(source: TensorSource) -> np.ndarray:
    """A matrix [N, K] as [K, N], never twice in memory."""
    num_rows, num_columns = source.shape
    if source.read_parts is None or not num_rows * num_columns:
        return np.ascontiguousarray(np.asarray(decompress(source.read())).T)
    x = np.empty((num_columns, num_rows), source.dtype)
    rows = max(1, _PART_ELEMS // num_columns)
    for idx, part in enumerate(source.read_parts(rows * num_columns)):
        x[:, idx * rows : (idx + 1) * rows] = part.reshape(-1, num_columns).T
    return x


def _dtype(slot: Slot, sources: Sources) -> np.dtype:
    dtypes = {sources[name].dtype for name in slot.names}
    if len(dtypes) > 1:
        raise FormatError(
            "the experts of a layer must have one dtype",
            got=f"{', '.join(sorted(map(dtype_name, dtypes)))} in {slot.names[0]} and its kind",
        )
    return dtypes.pop()
