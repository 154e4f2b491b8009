"""Parts of a compressed tensor, decoded one by one where the whole would take too much room."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pallas_kernels import CompressedTensor
from zipjax.array import decompress

TILE_ELEMS = 4096
_CUT_LAYOUTS = ("rows16", "bytes")


def decoded_parts(tensor: CompressedTensor, part_elems: int) -> Iterator[np.ndarray]:
    """The elements of a tensor in C order, `part_elems` at a time, the last part shorter.

    Args:
        tensor: its streams in NumPy.
        part_elems: elements of a part, any number from 1 on.

    Yields:
        The tensor's dtype [part_elems].
    """
    if tensor.layout not in _CUT_LAYOUTS:
        # Tiles of the layouts for kernels are no runs of elements, so there it is all at once.
        flat = np.asarray(decompress(tensor)).reshape(-1)
        yield from (flat[begin : begin + part_elems] for begin in range(0, flat.size, part_elems))
        return
    for begin in range(0, tensor.size, part_elems):
        end = min(begin + part_elems, tensor.size)
        yield _decoded(tensor, begin, end)


def _decoded(tensor: CompressedTensor, begin: int, end: int) -> np.ndarray:
    if tensor.codec == "raw":
        width = tensor.dtype.itemsize
        return tensor.streams["raw"][begin * width : end * width].view(tensor.dtype)
    first, last = begin // TILE_ELEMS, -(-end // TILE_ELEMS)
    tiles = np.asarray(decompress(_tiles(tensor, first, last)))
    return tiles[begin - first * TILE_ELEMS : end - first * TILE_ELEMS]


def _tiles(tensor: CompressedTensor, first: int, last: int) -> CompressedTensor:
    """Tiles `first` to `last - 1` as a tensor of their own (docs/format.md, section 1.3)."""
    elems = slice(first * TILE_ELEMS, min(last * TILE_ELEMS, tensor.size))
    old = tensor.streams
    streams: dict[str, Any] = {"exponents": old["exponents"], "codes": old["codes"][first:last]}
    for name in ("remainder", "remainder_low"):
        if name in old:
            by_tile = old[name].ndim == 3
            streams[name] = old[name][first:last] if by_tile else old[name][elems]
    offsets = old["patch_offsets"][first : last + 1]
    streams["patches"] = old["patches"][offsets[0] : offsets[-1]]
    streams["patch_offsets"] = offsets - offsets[0]
    held = (old["rare_tiles"] >= first) & (old["rare_tiles"] < last)
    streams["rare_tiles"] = old["rare_tiles"][held] - np.uint32(first)
    streams["rare_entries"] = old["rare_entries"][held]
    return CompressedTensor.from_streams(
        codec=tensor.codec,
        layout=tensor.layout,
        dtype=tensor.dtype,
        shape=(elems.stop - elems.start,),
        streams=streams,
    )
