"""Some rows of a compressed matrix, decoded without the others.

Rows start and end inside tiles. So the exponents of all tiles that the rows touch are decoded and
patched, cut to the rows, and only then joined with the rows' remainders:

    exponents[tile, row, lane] = base + code                 8 bits an element
    exponents[patches of these tiles] += table[index] - base a loop over chunks of the patch list,
    exponents[rare of these tiles]    += exponent - base     as long as these tiles' runs in it
    out = remainder[rows] | exponents[rows] << M
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    LAYOUT_ROWS16,
    RAW,
    TILE_ELEMS,
    TILE_LANES,
    TILE_ROWS,
    FloatSpec,
    float_spec,
)
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles.whole import decode_raw, first_rows, last_row, place_remainder

_CHUNK_MIN = 64
_Streams = dict[str, Any]


def can_decode_rows(tensor: CompressedTensor) -> bool:
    """Whether `decode_row_block` knows the tensor's layout."""
    return tensor.codec == RAW or tensor.layout == LAYOUT_ROWS16


def decode_row_block(
    tensor: CompressedTensor, row: jax.Array | int, num_rows: int, row_elems: int
) -> jax.Array:
    """Rows `row .. row + num_rows` of the tensor seen as [n / row_elems, row_elems].

    Held meanwhile: 8 bits for each element of the tiles that the rows touch, and the result. Time
    is that of these tiles and of their patches, however those are spread.

    Args:
        tensor: of a layout for which `can_decode_rows`; not empty.
        row: int32 [], the first row; at most n / row_elems - num_rows. May be traced.
        num_rows: how many.
        row_elems: elements of a row; divides the tensor's size.

    Returns:
        rows: `tensor.dtype` [num_rows, row_elems].

    Raises:
        UnsupportedError: another layout, or a dtype that JAX cannot hold.
    """
    if not can_decode_rows(tensor):
        raise UnsupportedError(
            f"rows are decoded from the layout {LAYOUT_ROWS16}", got=repr(tensor.layout)
        )
    streams = {name: jnp.asarray(stream) for name, stream in tensor.streams.items()}
    row = jnp.asarray(row, jnp.int32)
    if tensor.codec == RAW:
        row_nbytes = row_elems * tensor.dtype.itemsize
        stored = _rows(streams["raw"], row, num_rows, row_nbytes).reshape(-1)
        return decode_raw(stored, tensor.dtype, (num_rows, row_elems))
    spec = float_spec(tensor.dtype)
    first, offset, num_tiles = _tiles_of(row, num_rows, row_elems, streams["codes"].shape[0])
    num_elems = num_rows * row_elems

    def cut(stream: jax.Array) -> jax.Array:
        return lax.dynamic_slice(stream.reshape(-1), (offset,), (num_elems,))

    def packed(name: str) -> jax.Array:
        return cut(_unpack(_tiles(streams[name], first, num_tiles), spec, name))

    def dense(name: str) -> jax.Array:
        return _rows(streams[name], row, num_rows, row_elems).reshape(-1)

    exponent = cut(_exponents(streams, first, num_tiles)).astype(spec.bits_dtype)
    high = (dense if streams["remainder"].ndim == 1 else packed)("remainder")
    low = None
    if "remainder_low" in streams:
        low = (dense if streams["remainder_low"].ndim == 1 else packed)("remainder_low")
    bits = place_remainder(high.astype(spec.bits_dtype), low, spec)
    bits += exponent << spec.mantissa_bits
    return lax.bitcast_convert_type(bits, spec.dtype).reshape(num_rows, row_elems)


def _tiles_of(
    row: jax.Array, num_rows: int, row_elems: int, tiles: int
) -> tuple[jax.Array, jax.Array, int]:
    """First tile, the row's element in it, and how many tiles hold the rows wherever they start.

    The number of the row's first element may be beyond 32 bits; no number here is.
    """
    whole, rest = divmod(row_elems, TILE_ELEMS)
    far, near = row // TILE_ELEMS, row % TILE_ELEMS
    first = row * whole + far * rest + near * rest // TILE_ELEMS
    offset = near * rest % TILE_ELEMS
    offset_max = TILE_ELEMS - math.gcd(row_elems, TILE_ELEMS)
    count = min(tiles, -(-(offset_max + num_rows * row_elems) // TILE_ELEMS))
    clamped = jnp.minimum(first, tiles - count)
    return clamped, offset + (first - clamped) * TILE_ELEMS, count


def _exponents(streams: _Streams, first: jax.Array, num_tiles: int) -> jax.Array:
    """Exponents of `num_tiles` tiles from tile `first`: uint8 [num_tiles * 4096]."""
    base = streams["exponents"][0]
    codes = _tiles(streams["codes"], first, num_tiles)
    exponent = _unpack_rows(codes).astype(jnp.uint8).reshape(-1) + base
    share = num_tiles / streams["codes"].shape[0]
    for name, entries_of in (("patches", _patches), ("rare_entries", _rare)):
        length = streams[name].size
        if length:
            start, end, entries = entries_of(streams, first, num_tiles)
            chunk = min(length, max(_CHUNK_MIN, math.ceil(1.25 * share * length)))
            exponent = _lift(exponent, start, end, _Chunk(chunk, length), entries, base)
    return exponent


class _Chunk:
    """Windows of fixed size on a list of `length` entries."""

    def __init__(self, size: int, length: int):
        self.size, self.length = size, length

    def at(self, start: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Where the window that holds entry `start` begins, and the numbers of its entries."""
        begin = jnp.minimum(start, self.length - self.size)
        return begin, begin + jnp.arange(self.size, dtype=jnp.int32)

    def of(self, stream: jax.Array, begin: jax.Array) -> jax.Array:
        return lax.dynamic_slice(stream, (begin,), (self.size,))


_Entries = Callable[[jax.Array, jax.Array, _Chunk], tuple[jax.Array, jax.Array, jax.Array]]


def _patches(
    streams: _Streams, first: jax.Array, num_tiles: int
) -> tuple[jax.Array, jax.Array, _Entries]:
    """Where the patches of these tiles start and end, and how to read some of them."""
    offsets = lax.dynamic_slice(streams["patch_offsets"], (first,), (num_tiles + 1,))
    offsets = offsets.astype(jnp.int32)
    table = streams["exponents"][1:]

    def entries(begin: jax.Array, number: jax.Array, chunk: _Chunk) -> tuple[jax.Array, ...]:
        patches = chunk.of(streams["patches"], begin)
        tile = jnp.searchsorted(offsets[1:], number, side="right", method="scan_unrolled")
        return tile, patches >> 4, table[patches & 15]

    return offsets[0], offsets[-1], entries  # type: ignore[return-value]


def _rare(
    streams: _Streams, first: jax.Array, num_tiles: int
) -> tuple[jax.Array, jax.Array, _Entries]:
    """The same for elements whose exponent no patch can name; they are in the order of tiles."""
    tiles = streams["rare_tiles"]
    ends = jnp.stack([first, first + num_tiles]).astype(jnp.uint32)
    start, end = jnp.searchsorted(tiles, ends, side="left", method="scan_unrolled")

    def entries(begin: jax.Array, _: jax.Array, chunk: _Chunk) -> tuple[jax.Array, ...]:
        entry = chunk.of(streams["rare_entries"], begin)
        tile = chunk.of(tiles, begin).astype(jnp.int32) - first
        return tile, entry >> 8, (entry & 255).astype(jnp.uint8)

    return start, end, entries  # type: ignore[return-value]


def _lift(
    exponent: jax.Array,
    start: jax.Array,
    end: jax.Array,
    chunk: _Chunk,
    entries: _Entries,
    base: jax.Array,
) -> jax.Array:
    """Raise the exponents that entries `start .. end` of a list name, chunk by chunk."""
    # Numbers of elements that are not there, all different, for what is not in the run.
    beyond = exponent.size + jnp.arange(chunk.size, dtype=jnp.int32)

    def lift(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        at, exponent = state
        begin, number = chunk.at(at)
        tile, position, value = entries(begin, number, chunk)
        position = position.astype(jnp.int32)
        elem = tile * TILE_ELEMS + (position & TILE_ROWS - 1) * TILE_LANES + (position >> 4)
        elem = jnp.where((number >= at) & (number < end), elem, beyond)
        exponent = exponent.at[elem].add(value - base, mode="drop", unique_indices=True)
        return at + chunk.size, exponent

    start, end = start.astype(jnp.int32), end.astype(jnp.int32)
    return lax.while_loop(lambda state: state[0] < end, lift, (start, exponent))[1]


def _rows(stream: jax.Array, row: jax.Array, num_rows: int, row_elems: int) -> jax.Array:
    """Rows of a stream with one number an element; the reshape copies nothing."""
    return lax.dynamic_slice_in_dim(stream.reshape(-1, row_elems), row, num_rows)


def _tiles(stream: jax.Array, first: jax.Array, num_tiles: int) -> jax.Array:
    return lax.dynamic_slice_in_dim(stream, first, num_tiles)


def _unpack(stored: jax.Array, spec: FloatSpec, name: str) -> jax.Array:
    """A remainder stream that is packed by tiles: unsigned [tiles, 16, 256]."""
    if name == "remainder" and spec.remainder_bits == 4:
        return jnp.concatenate([stored & np.uint8(15), stored >> np.uint8(4)], axis=1)
    return _unpack_rows(stored)


def _unpack_rows(words: jax.Array) -> jax.Array:
    """Three bits of each element: uint16 [tiles, 16, 256]."""
    first = first_rows(words).reshape(-1, TILE_ROWS - 1, TILE_LANES)
    return jnp.concatenate([first, last_row(words)], axis=1)
