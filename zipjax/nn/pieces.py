"""Matrices in pieces: stacked layers and experts, and matrices cut for a mesh.

Every piece is compressed by itself, with its own window and its own lists. The streams of pieces
stand side by side under leading axes, their lists padded to the longest:

    array  [*stack, *matrix]      matrix axis d cut into c_d parts for d in cut_dims
    stream [*stack, c_d for d in cut_dims, *stream of one piece]

So whatever slices leaves (`vmap`, `scan`, `shard_map`) gives the streams of the pieces it wants,
and a device that holds a part of a sharded matrix holds the streams of this part and nothing else.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels import CompressedTensor, decode, encode, stream_specs

RAW = "raw"
ROWS16 = "rows16"
_LISTS = ("patches", "rare_tiles", "rare_entries")


def encode_pieces(
    array: np.ndarray, *, num_stacked: int = 0, cuts: tuple[int, ...] = ()
) -> CompressedTensor | None:
    """Compress an array in host memory piece by piece.

    Args:
        array: any coded float [*stack, *matrix].
        num_stacked: number of leading axes that count layers or experts.
        cuts: number of equal parts along each axis of the matrix; () for one part.

    Returns:
        The tensor of one piece, NumPy streams under leading axes; None when it would not be smaller
        than the array, or a piece has nothing to code.
    """
    cuts = cuts or (1,) * (array.ndim - num_stacked)
    return _encode_all(_pieces(array, num_stacked, cuts), array.shape[:num_stacked], cuts)


def encode_stack(
    matrices: Iterable[np.ndarray], num_matrices: int, *, cuts: tuple[int, ...]
) -> CompressedTensor | None:
    """`encode_pieces` of a stack of matrices that are never all in memory.

    Args:
        matrices: any coded float, all of one shape; each is asked for when the last is compressed.
        num_matrices: how many there are.
        cuts: number of equal parts along each axis of a matrix.

    Returns:
        As `encode_pieces` of the whole stack with `num_stacked=1`.
    """
    pieces = (piece for matrix in matrices for piece in _pieces(matrix, 0, cuts))
    return _encode_all(pieces, (num_matrices,), cuts)


def _encode_all(
    pieces: Iterable[np.ndarray], stack_shape: tuple[int, ...], cuts: tuple[int, ...]
) -> CompressedTensor | None:
    tensors = []
    raw_nbytes = 0
    for piece in pieces:
        tensor = encode(piece)
        if tensor.codec == RAW:
            return None
        tensors.append(tensor)
        raw_nbytes += piece.nbytes
    if not tensors:
        return None
    tensor = _side_by_side(tensors, (*stack_shape, *(cut for cut in cuts if cut > 1)))
    return tensor if tensor.nbytes < raw_nbytes else None


def fill_empty_lists(tensor: CompressedTensor) -> CompressedTensor:
    """Give every list of a tensor room for at least one element; Orbax stores no empty array.

    Args:
        tensor: of one piece without leading axes; NumPy, JAX or abstract streams.
    """
    if tensor.codec == RAW or tensor.layout != ROWS16:
        return tensor  # the lists of the layouts for kernels are never empty
    streams = dict(tensor.streams)
    for name in _LISTS:
        if not streams[name].size:
            streams[name] = _filled(streams[name], _filler(name, tensor))
    return dataclasses.replace(tensor, streams=streams)


def decode_pieces(tensor: CompressedTensor, cut_dims: tuple[int, ...] = ()) -> Any:
    """Undo `encode_pieces`; can be traced, vmapped and sharded.

    Args:
        tensor: of one piece, its streams under leading axes.
        cut_dims: axes of the matrix that are cut.

    Returns:
        The array [*stack, *matrix].
    """
    num_lead = num_lead_axes(tensor)
    if not num_lead and all(isinstance(stream, np.ndarray) for stream in tensor.streams.values()):
        return decode(tensor)
    decode_all: Any = decode
    for _ in range(num_lead):
        decode_all = jax.vmap(decode_all)
    return _join_cuts(decode_all(tensor), num_lead - len(cut_dims), cut_dims)


def whole_shape(tensor: CompressedTensor, cut_dims: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Shape of the array that the pieces make."""
    lead = _lead_shape(tensor)
    num_stacked = len(lead) - len(cut_dims)
    matrix = list(tensor.shape)
    for dim, cut in zip(cut_dims, lead[num_stacked:], strict=True):
        matrix[dim] *= cut
    return (*lead[:num_stacked], *matrix)


def num_lead_axes(tensor: CompressedTensor) -> int:
    """Number of leading axes of the streams: of stacks and of cuts."""
    return len(_lead_shape(tensor))


def _lead_shape(tensor: CompressedTensor) -> tuple[int, ...]:
    specs = stream_specs(tensor.codec, tensor.layout, tensor.dtype, tensor.shape)
    name = next(iter(specs))
    shape = tuple(tensor.streams[name].shape)
    return shape[: len(shape) - len(specs[name].shape)]


def _pieces(array: np.ndarray, num_stacked: int, cuts: tuple[int, ...]) -> Iterator[np.ndarray]:
    """The pieces in the order of the leading axes."""
    matrix = array.shape[num_stacked:]
    sizes = [size // cut for size, cut in zip(matrix, cuts, strict=True)]
    stacked = (range(size) for size in array.shape[:num_stacked])
    for where in itertools.product(*stacked, *map(range, cuts)):
        parts = zip(where[num_stacked:], sizes, strict=True)
        key: Any = where[:num_stacked]
        key += tuple(slice(part * size, (part + 1) * size) for part, size in parts)
        yield np.ascontiguousarray(array[key])


def _side_by_side(tensors: list[CompressedTensor], lead: tuple[int, ...]) -> CompressedTensor:
    """One tensor whose streams stand under the axes `lead`, the lists padded to the longest.

    Empties `tensors`.
    """
    filled = [fill_empty_lists(tensor) for tensor in tensors]
    first = filled[0]
    if not lead:
        return first
    fillers = {name: _filler(name, first) for name in _LISTS}
    parts_of = {name: [tensor.streams[name] for tensor in filled] for name in first.streams}
    # Streams are given up one by one: the parts shall not all stand beside the whole.
    filled.clear()
    tensors.clear()
    streams = {}
    for name in list(parts_of):
        parts = parts_of.pop(name)
        if name in _LISTS:
            parts = _padded(parts, fillers[name])
        streams[name] = np.stack(parts).reshape(*lead, *parts[0].shape)
    return CompressedTensor(first.codec, first.layout, first.dtype, first.shape, streams)


def _padded(parts: list[np.ndarray], filler: int) -> list[np.ndarray]:
    longest = max(part.size for part in parts)
    return [np.pad(part, (0, longest - part.size), constant_values=filler) for part in parts]


def _filled(stream: Any, filler: int) -> Any:
    """One filler in place of the empty `stream`, where that is."""
    if isinstance(stream, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct((1,), stream.dtype, sharding=stream.sharding)
    one = np.full(1, filler, stream.dtype)
    return jax.device_put(one, stream.sharding) if isinstance(stream, jax.Array) else one


def _filler(name: str, tensor: CompressedTensor) -> int:
    """What fills a list: a decoder stops at the last offset, and drops tiles that are not there."""
    return tensor.streams["codes"].shape[0] if name == "rare_tiles" else 0


def _join_cuts(pieces: jax.Array, num_stacked: int, cut_dims: tuple[int, ...]) -> jax.Array:
    """[*stack, *cuts, *piece] to [*stack, *matrix]: each cut axis goes before its own and joins."""
    for i in reversed(range(len(cut_dims))):
        num_left = num_stacked + i  # leading axes before this cut
        at = num_left + cut_dims[i]  # where the matrix's axis is once the cut's is out of the way
        pieces = jnp.moveaxis(pieces, num_left, at)
        shape = pieces.shape
        pieces = pieces.reshape(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    return pieces
