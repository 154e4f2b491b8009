"""Codec `triple_bitmap`, layouts `mma16x256` and `mma256x16`: weights as tensor cores take them.

The same window, table, patches and rare elements as in `rows16`; only the order of the elements
(`format.mma_order`) and how the lists are stored differ:

    words          sign, code and mantissa, W = M + 4 bits an element
    tile_offsets   [T + 1, 2]: where a tile's patches and rare entries start
    patches        two entries (position << 4 | index) to a word, the first in the low half
    rare_entries   position << 8 | exponent

Both lists are padded with zeros. What lies beyond a matrix's rows and depths is zero: the smallest
number of the window, so finite whatever the base. Written to be read, not to be fast.
"""

import numpy as np

from pallas_kernels.codecs.triple_bitmap import choose_exponents, index_escapes
from pallas_kernels.format import (
    LAYOUT_MMA,
    PATCH_WORDS_STEP,
    RARE_ENTRIES_STEP,
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
    base, table = choose_exponents(exponent, spec)

    relative = exponent.astype(np.int64) - base
    escaped = (relative < 0) | (relative >= WINDOW_SIZE)
    codes = np.where(escaped, 0, relative).astype(np.uint8)
    kept = join(codes, remainder, spec)
    escape = np.where(escaped, exponent.astype(np.uint32) + 1, 0)  # 0: none

    positions = _positions(kept.reshape(x.shape), layout)
    escapes = _positions(escape.reshape(x.shape), layout)
    tile, position = np.nonzero(escapes)
    index, is_rare = index_escapes(escapes[tile, position] - 1, table, base)
    offsets = np.stack(
        [np.searchsorted(t, np.arange(len(positions) + 1)) for t in (tile, tile[is_rare])], axis=1
    )
    rare = position[is_rare] << 8 | (escapes[tile, position] - 1)[is_rare]
    patches = _padded((position << 4 | index).astype("<u2"), 2 * PATCH_WORDS_STEP)
    return {
        "exponents": np.concatenate([[base], table]).astype(np.uint8),
        "words": pack_pairs(pairs_of_positions(positions), spec),
        "tile_offsets": offsets.astype(np.uint32),
        "patches": patches.view("<u4"),
        "rare_entries": _padded(rare.astype(np.uint32), RARE_ENTRIES_STEP),
    }


def decode(
    streams: dict[str, np.ndarray], dtype: np.dtype, shape: tuple[int, ...], layout: str
) -> np.ndarray:
    """Undo `encode`: a new array of `dtype` and `shape`, bit for bit."""
    spec = float_spec(dtype)
    base, table = int(streams["exponents"][0]), streams["exponents"][1:].astype(np.int64)
    bits = positions_of_pairs(unpack_pairs(streams["words"], spec))
    offsets = streams["tile_offsets"].astype(np.int64)

    exponent = np.full(bits.shape, base)
    tile = np.repeat(np.arange(len(bits)), np.diff(offsets[:, 0]))
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


def _padded(entries: np.ndarray, step: int) -> np.ndarray:
    out = np.zeros(padded_size(entries.size, step), entries.dtype)
    out[: entries.size] = entries
    return out
