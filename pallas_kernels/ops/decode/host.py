"""The `numpy` backend of `decode`: streams in host memory, no device and nothing to compile.

Piece by piece of 64 tiles, so that everything between the streams and the elements stays in the
cache; a float32 is put together from 16-bit halves, of which only the upper one takes arithmetic.
"""

import math

import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    LAYOUT_ROWS16,
    RAW,
    TILE_ELEMS,
    TILE_LANES,
    TILE_ROWS,
    FloatSpec,
    float_spec,
    num_tiles,
)
from pallas_kernels.tensor import CompressedTensor

PIECE_TILES = 64
_U16 = np.uint16


def decode(tensor: CompressedTensor) -> np.ndarray:
    """Decode streams in host memory: a new array with the bits of `codecs.triple_bitmap.decode`.

    Raises:
        UnsupportedError: a stream is on a device, the codec is raw, or the layout is for GPUs.
    """
    if not all(isinstance(stream, np.ndarray) for stream in tensor.streams.values()):
        raise UnsupportedError("this backend takes streams in host memory", got="JAX arrays")
    if tensor.codec == RAW:
        raise UnsupportedError("this backend decodes coded tensors", got=tensor.codec)
    if tensor.layout != LAYOUT_ROWS16:
        raise UnsupportedError(f"NumPy decodes the layout {LAYOUT_ROWS16}", got=tensor.layout)
    spec = float_spec(tensor.dtype)
    num_elems = math.prod(tensor.shape)
    # Whole tiles first: the lists may then point anywhere in them, and the rest is cut off.
    bits = np.empty(num_tiles(num_elems) * TILE_ELEMS, spec.bits_dtype)
    for tile in range(0, num_tiles(num_elems), PIECE_TILES):
        _decode_piece(
            bits[tile * TILE_ELEMS : (tile + PIECE_TILES) * TILE_ELEMS], tile, tensor, spec
        )
    tiles = tensor.streams["rare_tiles"].astype(np.int64)
    is_there = tiles < num_tiles(num_elems)  # room that is not used points to no tile
    entries = tensor.streams["rare_entries"][is_there]
    _lift(bits, tiles[is_there], entries >> 8, entries & 255, tensor, spec)
    return bits[:num_elems].view(tensor.dtype).reshape(tensor.shape)


def _decode_piece(
    bits: np.ndarray, first_tile: int, tensor: CompressedTensor, spec: FloatSpec
) -> None:
    """Fill `bits`, which are some whole tiles."""
    streams = tensor.streams
    tiles = slice(first_tile, first_tile + bits.size // TILE_ELEMS)
    exponent = _unpack_rows(streams["codes"][tiles]) + _U16(streams["exponents"][0])
    _join(bits, exponent.reshape(-1), tiles, streams, spec)

    offsets = streams["patch_offsets"][tiles.start : tiles.stop + 1].astype(np.int64)
    patches = streams["patches"][offsets[0] : offsets[-1]]
    tile = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    _lift(bits, tile, patches >> 4, streams["exponents"][1:][patches & 15], tensor, spec)


def _lift(
    bits: np.ndarray,
    tile: np.ndarray,
    position: np.ndarray,
    exponent: np.ndarray,
    tensor: CompressedTensor,
    spec: FloatSpec,
) -> None:
    """Add what is missing from the base to the exponents at positions of tiles, modulo the word."""
    word = spec.bits_dtype
    position = position.astype(np.int64)
    base = tensor.streams["exponents"][0].astype(word)
    lift = exponent.astype(word) - base
    where = tile * TILE_ELEMS + (position & TILE_ROWS - 1) * TILE_LANES + (position >> 4)
    bits[where] += lift << word.type(spec.mantissa_bits)


def _join(
    bits: np.ndarray,
    exponent: np.ndarray,
    tiles: slice,
    streams: dict[str, np.ndarray],
    spec: FloatSpec,
) -> None:
    """Put remainders and exponents together: uint16 exponents [n] into `bits`."""
    elems = slice(tiles.start * TILE_ELEMS, tiles.stop * TILE_ELEMS)
    stored = streams["remainder"]
    if spec.width_bits == 8:
        remainder = _unpack_remainder(stored[tiles], spec)
        sign = remainder >> np.uint8(spec.mantissa_bits) << np.uint8(7)
        mantissa = remainder & np.uint8((1 << spec.mantissa_bits) - 1)
        exponent = (exponent << _U16(spec.mantissa_bits)).astype(np.uint8)
        np.add(exponent, sign | mantissa, out=bits)
        return
    byte = stored[elems].astype(np.uint16)  # The last tile's may be fewer.
    num = byte.size
    mantissa_bits = spec.mantissa_bits - (16 if spec.width_bits == 32 else 0)
    words = (byte & _U16(0x80)) << _U16(8) | (byte & _U16(0x7F)) << _U16(mantissa_bits - 7)
    words += exponent[:num] << _U16(mantissa_bits)
    if spec.width_bits == 32:
        halves = bits.view(np.uint16).reshape(-1, 2)
        halves[:num, 1] = words
        halves[:num, 0] = streams["remainder_low"][elems]
        return
    bits[:num] = words
    if mantissa_bits > 7:
        bits |= _unpack_rows(streams["remainder_low"][tiles]).reshape(-1)


def _unpack_remainder(stored: np.ndarray, spec: FloatSpec) -> np.ndarray:
    """Sign and mantissa of one-byte floats: uint8 [n]."""
    if spec.remainder_bits == 3:
        return _unpack_rows(stored).astype(np.uint8).reshape(-1)
    return np.concatenate([stored & np.uint8(15), stored >> np.uint8(4)], axis=1).reshape(-1)


def _unpack_rows(words: np.ndarray) -> np.ndarray:
    """`format.unpack_rows`, row by row, without a pass to put them together."""
    rows = np.empty((words.shape[0], TILE_ROWS, TILE_LANES), np.uint16)
    for word in range(3):
        for row in range(5):
            shifted = rows[:, 5 * word + row]
            np.right_shift(words[:, word], _U16(3 * row), out=shifted)
            shifted &= _U16(7)
    top = words >> _U16(15)
    rows[:, TILE_ROWS - 1] = top[:, 0] | top[:, 1] << _U16(1) | top[:, 2] << _U16(2)
    return rows
