"""The `numpy` backend of `encode`: arrays in host memory, no device and nothing to compile.

The tensor is worked through in pieces of 64 tiles, small enough that everything between reading the
elements and writing the streams stays in the cache; that makes it as fast as the compiled backend.
The list of patches is finished at the end, for its table depends on all of them.
"""

import jax
import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    LAYOUT_ROWS16,
    SAMPLE_ABOVE_ELEMS,
    SAMPLE_RUN_ELEMS,
    SAMPLE_STRIDE_RUNS,
    TABLE_SIZE,
    TILE_ELEMS,
    TILE_LANES,
    TILE_ROWS,
    TRIPLE_BITMAP,
    WINDOW_SIZE,
    FloatSpec,
    bit_view,
    float_spec,
    num_tiles,
    stream_specs,
    window_from_histogram,
)

PIECE_TILES = 64
_HISTOGRAM_ELEMS = 1 << 18
_U16 = np.uint16

Streams = dict[str, np.ndarray]


def encode(x: np.ndarray | jax.Array) -> Streams | None:
    """Encode an array in host memory; the streams are those of `codecs.triple_bitmap`.

    Returns:
        streams, or None where they would not be smaller than the array.

    Raises:
        UnsupportedError: `x` is on a device.
    """
    if isinstance(x, jax.Array):
        raise UnsupportedError("this backend takes arrays in host memory", got="a JAX array")
    spec = float_spec(x.dtype)
    bits = bit_view(np.ascontiguousarray(x).reshape(-1))
    base = _choose_base(bits, spec)
    streams = _empty_dense(x, spec)
    room = x.nbytes - sum(stream.nbytes for stream in streams.values())
    patches, exponents = [], []
    for tile in range(0, num_tiles(x.size), PIECE_TILES):
        piece = bits[tile * TILE_ELEMS : (tile + PIECE_TILES) * TILE_ELEMS]
        patch, exponent = _encode_piece(piece, tile, base, streams, spec)
        room -= 2 * patch.size
        if room <= 0:
            return None
        patches.append(patch)
        exponents.append(exponent)
    lists = _lists(np.concatenate(patches), np.concatenate(exponents), base, x.size, spec)
    return streams | lists


def _choose_base(bits: np.ndarray, spec: FloatSpec) -> int:
    """The window's first exponent, by the oracle's rule and sample."""
    if bits.size > SAMPLE_ABOVE_ELEMS:
        group_elems = SAMPLE_RUN_ELEMS * SAMPLE_STRIDE_RUNS
        groups = bits.size // group_elems
        sample = bits[: groups * group_elems].reshape(groups, group_elems)
        bits = sample[:, :SAMPLE_RUN_ELEMS].reshape(-1)
    histogram = np.zeros(spec.num_exponents, np.int64)
    for start in range(0, bits.size, _HISTOGRAM_ELEMS):
        words, mantissa_bits = _top_words(bits[start : start + _HISTOGRAM_ELEMS], spec)
        histogram += _histogram(_exponent(words, mantissa_bits, spec))[: spec.num_exponents]
    return window_from_histogram(histogram)


def _histogram(values: np.ndarray) -> np.ndarray:
    """How often each of 256 values occurs.

    Two neighbours are counted as one number of 16 bits: four times as fast as one by one.
    """
    pairs = values[: values.size // 2 * 2].view(np.uint16)
    counts = np.bincount(pairs, minlength=1 << 16).reshape(256, 256)
    return (
        counts.sum(axis=0)
        + counts.sum(axis=1)
        + np.bincount(values[2 * pairs.size :], minlength=256)
    )


def _empty_dense(x: np.ndarray, spec: FloatSpec) -> Streams:
    """Room for the streams that hold something of every element."""
    specs = stream_specs(TRIPLE_BITMAP, LAYOUT_ROWS16, spec.dtype, tuple(x.shape))
    names = [name for name in ("codes", "remainder", "remainder_low") if name in specs]
    return {name: np.empty(_fixed(specs[name].shape), specs[name].dtype) for name in names}


def _fixed(shape: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size is not None)


def _encode_piece(
    bits: np.ndarray, first_tile: int, base: int, streams: Streams, spec: FloatSpec
) -> tuple[np.ndarray, np.ndarray]:
    """Fill the dense streams of some tiles.

    Returns:
        patch: int64 [K], tile << 12 | position of each escape, rising.
        exponent: uint8 [K], its exponent.
    """
    tiles = slice(first_tile, first_tile + num_tiles(bits.size))
    missing = num_tiles(bits.size) * TILE_ELEMS - bits.size
    words, mantissa_bits = _top_words(bits, spec)
    exponent = _exponent(words, mantissa_bits, spec)
    if missing:
        exponent = np.concatenate([exponent, np.full(missing, base, np.uint8)])
    code = exponent - np.uint8(base)
    # 32 bits number the elements of a piece, and are sorted twice as fast as 64.
    escape = np.flatnonzero(code >= WINDOW_SIZE).astype(np.int32)
    code[escape] = 0
    streams["codes"][tiles] = _pack_rows(code)
    _pack_remainder(words, mantissa_bits, tiles, streams, spec)
    if spec.width_bits == 32:
        low = streams["remainder_low"][first_tile * TILE_ELEMS :][: bits.size]
        low[:] = bits.view(np.uint16)[::2]

    tile, within = escape >> 12, escape & TILE_ELEMS - 1
    patch = tile << 12 | (within & TILE_LANES - 1) << 4 | within >> 8
    patch.sort()
    position = patch & TILE_ELEMS - 1
    where = (patch >> 12 << 12) | (position & TILE_ROWS - 1) << 8 | position >> 4
    return patch.astype(np.int64) + (first_tile << 12), exponent[where]


def _exponent(words: np.ndarray, mantissa_bits: int, spec: FloatSpec) -> np.ndarray:
    """The exponent fields: uint8 [n]."""
    exponent = (words >> words.dtype.type(mantissa_bits)).astype(np.uint8)
    # Eight bits of exponent fill the byte: the cast has cut the sign off.
    return exponent if spec.exponent_bits == 8 else exponent & np.uint8(spec.num_exponents - 1)


def _top_words(bits: np.ndarray, spec: FloatSpec) -> tuple[np.ndarray, int]:
    """Words that hold all but a float32's lowest 16 bits, and the width of their mantissa."""
    if spec.width_bits == 32:
        return (bits >> np.uint32(16)).astype(np.uint16), spec.mantissa_bits - 16
    return bits, spec.mantissa_bits


def _lists(
    patch: np.ndarray, exponent: np.ndarray, base: int, num_elems: int, spec: FloatSpec
) -> Streams:
    """The table, and each escape's patch; those whose exponent is not in the table are rare."""
    counts = np.bincount(exponent, minlength=spec.num_exponents)
    table = np.argsort(-counts, kind="stable")[:TABLE_SIZE]
    if np.count_nonzero(counts) > TABLE_SIZE:
        table[-1] = base  # A patch that does nothing, for the rare ones.
    used = counts[table] > 0
    index_of = np.full(spec.num_exponents, TABLE_SIZE)
    index_of[table[used]] = np.flatnonzero(used)
    index = index_of[exponent]
    rare = index == TABLE_SIZE
    position = patch & TILE_ELEMS - 1
    offsets = np.searchsorted(patch, np.arange(num_tiles(num_elems) + 1) << 12)
    return {
        "exponents": np.concatenate([[base], np.where(used, table, base)]).astype(np.uint8),
        "patch_offsets": offsets.astype(np.uint32),
        "patches": (position << 4 | np.minimum(index, TABLE_SIZE - 1)).astype(np.uint16),
        "rare_tiles": (patch[rare] >> 12).astype(np.uint32),
        "rare_entries": (position[rare] << 8 | exponent[rare]).astype(np.uint32),
    }


def _pack_remainder(
    words: np.ndarray, mantissa_bits: int, tiles: slice, streams: Streams, spec: FloatSpec
) -> None:
    """Fill the remainder streams as `codecs.triple_bitmap` does, but for a float32's low words."""
    elems = slice(tiles.start * TILE_ELEMS, tiles.start * TILE_ELEMS + words.size)
    missing = -words.size % TILE_ELEMS
    if spec.width_bits > 8:
        # Sign and the seven highest bits of the mantissa make a byte.
        byte = words >> _U16(8)
        byte &= _U16(0x80)
        shifted = words >> _U16(mantissa_bits - 7) if mantissa_bits > 7 else words
        byte |= shifted & _U16(0x7F)
        streams["remainder"][elems] = byte
        if mantissa_bits > 7:
            streams["remainder_low"][tiles] = _pack_rows(_fill(words & _U16(7), missing))
        return
    mantissa = words & np.uint8((1 << mantissa_bits) - 1)
    remainder = _fill(words >> np.uint8(7) << np.uint8(mantissa_bits) | mantissa, missing)
    if spec.remainder_bits == 3:
        streams["remainder"][tiles] = _pack_rows(remainder)
    else:
        rows = remainder.reshape(-1, TILE_ROWS, TILE_LANES)
        streams["remainder"][tiles] = rows[:, :8] | rows[:, 8:] << np.uint8(4)


def _fill(values: np.ndarray, missing: int) -> np.ndarray:
    return np.concatenate([values, np.zeros(missing, values.dtype)]) if missing else values


def _pack_rows(values: np.ndarray) -> np.ndarray:
    """`format.pack_rows` of flat tiles; written out, because reductions over five are slow."""
    rows = values.reshape(-1, TILE_ROWS, TILE_LANES).astype(np.uint16)
    low = rows[:, : TILE_ROWS - 1].reshape(-1, 3, 5, TILE_LANES)
    words = low[:, :, 0] | low[:, :, 1] << _U16(3)
    for row in (2, 3, 4):
        words |= low[:, :, row] << _U16(3 * row)
    for word in range(3):
        words[:, word] |= rows[:, TILE_ROWS - 1] >> _U16(word) << _U16(15)
    return words
