"""Codec `triple_bitmap`, layouts `mma16x256` and `mma256x16`: weights as tensor cores take them.

The same window as in `rows16`; the order of the elements (`format.mma_order`) and the lists differ:

    words          sign, code and mantissa, W = M + 4 bits an element
    exponents      as there, but the last entry of the table is always the base
    patches        two entries (position << 4 | index) to a word, the first in the low half. A tile
                   with an odd number of them has the last one twice, a tile without any has one
                   that changes nothing (position 0, index 15) twice
    rare_entries   position << 8 | exponent, for what has no entry in the table and for what a tile
                   has beyond 128 patches; it has no patch
    tile_offsets   [T + 17, 2]: where a tile's patch words and its rare entries start; the rows
                   from T on are the ends, so that a kernel may look two groups of tiles ahead

Both lists are padded with zeros. What lies beyond a matrix's rows and depths is zero: the smallest
number of the window, so finite whatever the base. Written to be read, not to be fast.
"""

import numpy as np

from pallas_kernels.codecs.triple_bitmap import choose_exponents, index_escapes
from pallas_kernels.format import (
    LAYOUT_MMA,
    LOOK_AHEAD_TILES,
    PATCH_WORDS_STEP,
    RARE_ENTRIES_STEP,
    TABLE_SIZE,
    TILE_PATCH_WORDS,
    WINDOW_SIZE,
    bit_view,
    float_spec,
    join,
    matrices_of_tiles,
    pack_pairs,
    padded_size,
    pairs_of_positions,
    positions_of_pairs,
    positions_of_tiles,
    split,
    tiles_of_matrices,
    tiles_of_positions,
    unpack_pairs,
)


def encode(x: np.ndarray, layout: str) -> dict[str, np.ndarray]:
    """Compress matrices of 16-bit floats.

    Args:
        x: bfloat16 or float16 [..., rows, depth] (`mma16x256`) or [..., depth, rows] (`mma256x16`).
        layout: its name.

    Returns:
        streams: as `format.stream_specs` describes them.
    """
    spec = float_spec(x.dtype)
    bits = bit_view(np.ascontiguousarray(x))
    exponent, remainder = split(bits.reshape(-1), spec)
    base, table = choose_exponents(exponent, spec, needs_base=True)

    relative = exponent.astype(np.int64) - base
    escaped = (relative < 0) | (relative >= WINDOW_SIZE)
    codes = np.where(escaped, 0, relative).astype(np.uint8)
    kept = join(codes, remainder, spec)
    escape = np.where(escaped, exponent.astype(np.uint32) + 1, 0)  # 0: none

    positions = _positions(kept.reshape(x.shape), layout)
    escapes = _positions(escape.reshape(x.shape), layout)
    tile, position = np.nonzero(escapes)
    exponent = escapes[tile, position] - 1
    index, is_rare = index_escapes(exponent, table, base)
    is_rare |= _rank_in_tile(tile, ~is_rare) >= 2 * TILE_PATCH_WORDS
    words, word_tile = _pairs(tile[~is_rare], (position << 4 | index)[~is_rare], len(positions))
    offsets = [
        np.searchsorted(tiles, np.arange(len(positions) + 1 + LOOK_AHEAD_TILES))
        for tiles in (word_tile, tile[is_rare])
    ]
    rare = (position << 8 | exponent)[is_rare].astype(np.uint32)
    return {
        "exponents": np.concatenate([[base], table]).astype(np.uint8),
        "words": pack_pairs(pairs_of_positions(positions), spec),
        "tile_offsets": np.stack(offsets, axis=1).astype(np.uint32),
        "patches": _padded(words, PATCH_WORDS_STEP),
        "rare_entries": _padded(rare, RARE_ENTRIES_STEP),
    }


def decode(
    streams: dict[str, np.ndarray], dtype: np.dtype, shape: tuple[int, ...], layout: str
) -> np.ndarray:
    """Undo `encode`: a new array of `dtype` and `shape`, bit for bit."""
    spec = float_spec(dtype)
    base, table = int(streams["exponents"][0]), streams["exponents"][1:].astype(np.int64)
    bits = positions_of_pairs(unpack_pairs(streams["words"], spec))
    offsets = streams["tile_offsets"][: len(bits) + 1].astype(np.int64)

    exponent = np.full(bits.shape, base)
    tile = np.repeat(np.arange(len(bits)), 2 * np.diff(offsets[:, 0]))
    patches = streams["patches"].view("<u2")[: tile.size].astype(np.int64)
    exponent[tile, patches >> 4] = table[patches & 15]
    tile = np.repeat(np.arange(len(bits)), np.diff(offsets[:, 1]))
    entries = streams["rare_entries"][: tile.size].astype(np.int64)
    exponent[tile, entries >> 8] = entries & 255

    bits = bits + (exponent << spec.mantissa_bits).astype(spec.bits_dtype)
    return _matrices(bits, shape, layout).view(dtype)


def _positions(x: np.ndarray, layout: str) -> np.ndarray:
    """An array as [T, 4096 positions]."""
    rows_first = x if layout == LAYOUT_MMA else x.swapaxes(-1, -2)
    batch = int(np.prod(rows_first.shape[:-2], dtype=np.int64))
    matrices = rows_first.reshape(batch, *rows_first.shape[-2:])
    return positions_of_tiles(tiles_of_matrices(matrices))


def _matrices(positions: np.ndarray, shape: tuple[int, ...], layout: str) -> np.ndarray:
    """Undo `_positions`."""
    *batch, rows, depth = shape if layout == LAYOUT_MMA else (*shape[:-2], shape[-1], shape[-2])
    tiles = tiles_of_positions(positions)
    matrices = matrices_of_tiles(tiles, int(np.prod(batch, dtype=np.int64)), rows, depth)
    rows_first = matrices.reshape(*batch, rows, depth)
    return np.ascontiguousarray(rows_first if layout == LAYOUT_MMA else rows_first.swapaxes(-1, -2))


def _rank_in_tile(tile: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """How many counted elements of the same tile come before each element."""
    before = np.cumsum(counted) - counted
    starts = np.searchsorted(tile, tile)  # where each element's tile starts
    return before - before[starts] if tile.size else before


def _pairs(tile: np.ndarray, entries: np.ndarray, tiles: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries in pairs, tile by tile, and the tile of each pair."""
    counts = np.bincount(tile, minlength=tiles)
    words = []
    for own in np.split(entries, np.cumsum(counts)[:-1]):
        own = own if own.size else np.array([TABLE_SIZE - 1])
        own = np.append(own, own[-1:]) if own.size % 2 else own
        words.append(own[0::2] | own[1::2] << 16)
    word_tile = np.repeat(np.arange(tiles), np.maximum(1, -(-counts // 2)))
    return np.concatenate(words)[: word_tile.size].astype(np.uint32), word_tile


def _padded(entries: np.ndarray, step: int) -> np.ndarray:
    out = np.zeros(padded_size(entries.size, step), entries.dtype)
    out[: entries.size] = entries
    return out
