"""A `rows16` tensor in an mma layout: words by a kernel or XLA, lists of escapes in NumPy.

Sizes of the lists depend on the data; they hold 1 to 2 % of the elements, so the host makes them.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.dispatch import dispatch
from pallas_kernels.format import (
    LOOK_AHEAD_TILES,
    PATCH_INDEX_BITS,
    PATCH_WORDS_STEP,
    RARE_ENTRIES_STEP,
    RARE_EXPONENT_BITS,
    TABLE_SIZE,
    TILE_PATCH_WORDS,
    float_spec,
    padded_size,
)
from pallas_kernels.ops.encode import mosaic_gpu
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import encode_mma_words, find_escapes

_words_jit = jax.jit(encode_mma_words, static_argnums=(2, 3))
_escapes_jit = jax.jit(find_escapes, static_argnums=(2, 3, 4))


def _words_by_xla(x: jax.Array, exponents: np.ndarray, layout: str) -> jax.Array:
    return _words_jit(x, jnp.asarray(exponents[0]), float_spec(x.dtype), layout)


_WORDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"mosaic_gpu": mosaic_gpu.encode_words, "xla": _words_by_xla}
)


def arrange_for_mma(x: Any, rows16: CompressedTensor, layout: str) -> CompressedTensor:
    """The same elements in an mma layout.

    Args:
        x: the array, NumPy or JAX.
        rows16: `x` compressed; its window and table are kept, but for the table's last entry.
        layout: "mma16x256" or "mma256x16".

    Returns:
        tensor: NumPy streams if `x` is NumPy, else JAX streams.
    """
    spec = float_spec(x.dtype)
    exponents = np.array(rows16.streams["exponents"])
    base = exponents[0]
    exponents[TABLE_SIZE] = base
    num_escapes = int(rows16.streams["patch_offsets"][-1])
    array = jnp.asarray(x)
    words = dispatch("encode", _WORDS, None, array, exponents, layout)
    escapes = _escapes_jit(array, jnp.asarray(base), num_escapes, spec, layout)
    tile, position, exponent = map(np.asarray, escapes)
    lists = _lists(tile, position, exponent, exponents, words.shape[0])
    streams: dict[str, Any] = {"exponents": exponents, "words": words, **lists}
    put = np.asarray if isinstance(x, np.ndarray) else jnp.asarray
    streams = {name: put(stream) for name, stream in streams.items()}
    return CompressedTensor(rows16.codec, layout, rows16.dtype, rows16.shape, streams)


def _lists(
    tile: np.ndarray,
    position: np.ndarray,
    exponent: np.ndarray,
    exponents: np.ndarray,
    num_tiles: int,
) -> dict[str, np.ndarray]:
    """The lists of escapes that come by tile and position."""
    base, table = exponents[0], exponents[1:]
    index_of = np.full(256, TABLE_SIZE)
    used = np.flatnonzero(table != base)
    index_of[table[used]] = used
    index = index_of[exponent]
    rank = _rank(tile, index < TABLE_SIZE, num_tiles)
    is_patch = (index < TABLE_SIZE) & (rank < 2 * TILE_PATCH_WORDS)

    entries = position.astype(np.uint16) << PATCH_INDEX_BITS | index.astype(np.uint16)
    words, word_offsets = _pairs(tile[is_patch], rank[is_patch], entries[is_patch], num_tiles)
    rare = position.astype(np.uint32) << RARE_EXPONENT_BITS | exponent
    counts = np.bincount(tile[~is_patch], minlength=num_tiles)
    offsets = np.zeros((num_tiles + 1, 2), np.uint32)
    offsets[:, 0] = word_offsets
    np.cumsum(counts, out=offsets[1:, 1])
    return {
        "tile_offsets": np.pad(offsets, ((0, LOOK_AHEAD_TILES), (0, 0)), mode="edge"),
        "patches": _padded(words, PATCH_WORDS_STEP),
        "rare_entries": _padded(rare[~is_patch], RARE_ENTRIES_STEP),
    }


def _rank(tile: np.ndarray, counted: np.ndarray, num_tiles: int) -> np.ndarray:
    """How many counted escapes of its tile come before each escape."""
    per_tile = np.bincount(tile[counted], minlength=num_tiles)
    before_tile = np.cumsum(per_tile) - per_tile
    return np.cumsum(counted) - counted - before_tile[tile]


def _pairs(
    tile: np.ndarray, rank: np.ndarray, entries: np.ndarray, num_tiles: int
) -> tuple[np.ndarray, np.ndarray]:
    """Entries two to a word; where each tile's words start, and the end."""
    counts = np.bincount(tile, minlength=num_tiles)
    offsets = np.zeros(num_tiles + 1, np.int64)
    np.cumsum(np.maximum(1, -(-counts // 2)), out=offsets[1:])
    halves = np.full(2 * offsets[-1], TABLE_SIZE - 1, np.uint16)
    halves[2 * offsets[tile] + rank] = entries
    odd = np.flatnonzero(counts % 2)
    last = 2 * offsets[odd] + counts[odd] - 1
    halves[last + 1] = halves[last]
    return halves.view(np.uint32), offsets


def _padded(entries: np.ndarray, step: int) -> np.ndarray:
    out = np.zeros(padded_size(entries.size, step), np.uint32)
    out[: entries.size] = entries
    return out
