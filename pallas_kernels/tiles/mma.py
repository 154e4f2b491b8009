"""Tensors in mma layouts in plain `jnp`: decoded, and made from `rows16` without going through the
host.

    pair[t, i, lane]  = stored words, moved and masked          elementwise, by the table of pieces
    out[t, position]  = halves of the pairs + base << M
    out[patches]     += (table[index] - base) << M              modulo 2^16, so it may go down
    out[rare]        += (exponent - base) << M

and then one transpose to where the elements belong. Patches and rare entries are scattered, so they
cost in proportion to their number. Encoding goes the same way back.
"""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.format import (
    LANES,
    LAYOUT_MMA,
    MMA_GROUP_ROWS,
    MMA_GROUP_TILES,
    MMA_TILE_DEPTH,
    PAIR_WORDS_PER_GROUP,
    TILE_ELEMS,
    WORDS_PER_LOAD,
    FloatSpec,
    kept_mask,
    matrix_grid,
    secondary_pieces,
    words_per_group,
)


def decode_mma(
    streams: dict[str, jax.Array], spec: FloatSpec, shape: tuple[int, ...], layout: str
) -> jax.Array:
    """Decode a tensor in an mma layout.

    Args:
        streams: as `format.stream_specs` describes them.
        spec: the float.
        shape: of the tensor.
        layout: its name.

    Returns:
        x: `spec.dtype`, of `shape`, bit for bit.
    """
    base, table = streams["exponents"][0], streams["exponents"][1:]
    out = _window(streams["words"], base, spec)
    offsets = streams["tile_offsets"][: out.shape[0] + 1].astype(jnp.int32)

    # Padding beyond the last entry falls to a tile that is not there.
    pairs, tile = streams["patches"], _tile_of(offsets[:, 0], streams["patches"].size)
    low, high = pairs & 0xFFFF, pairs >> 16
    out = _lift(out, tile, low >> 4, table[low & 15], base, spec)
    # One that fills up a pair is the patch before it once more: lifted by nothing.
    again = jnp.where(high == low, base, table[high & 15])
    out = _lift(out, tile, high >> 4, again, base, spec)
    entries = streams["rare_entries"]
    tile = _tile_of(offsets[:, 1], entries.size)
    out = _lift(out, tile, entries >> 8, (entries & 255).astype(jnp.uint8), base, spec)
    return lax.bitcast_convert_type(_from_positions(out, shape, layout), spec.dtype)


def encode_mma_words(x: jax.Array, base: jax.Array, spec: FloatSpec, layout: str) -> jax.Array:
    """The main stream of an mma layout.

    Args:
        x: 16-bit floats [..., rows, depth], or [..., depth, rows].
        base: uint8 [], the window's base.
        spec: the float.
        layout: its name.

    Returns:
        words: uint32 [T, W, 32, 4].
    """
    bits, _, relative = _relative(x, base, spec)
    code = jnp.where(relative > 7, 0, relative).astype(jnp.uint16)
    mask = kept_mask(spec) & 0xFFFF & ~(7 << spec.mantissa_bits)
    kept = (bits & np.uint16(mask)) | (code << spec.mantissa_bits)
    return _pack(_to_positions(kept, layout), spec)


def find_escapes(
    x: jax.Array, base: jax.Array, num_escapes: int, spec: FloatSpec, layout: str
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Tile, position and exponent of each element outside the window, by tile and position.

    Args:
        x: as for `encode_mma_words`.
        base: uint8 [], the window's base.
        num_escapes: how many there are.
        spec: the float.
        layout: its name.
    """
    _, exponent, relative = _relative(x, base, spec)
    # The exponent of an escape, 256 where there is none.
    marked = jnp.where(relative > 7, exponent, 256)
    marked = _to_positions(marked, layout, filler=256).reshape(-1)
    (at,) = jnp.nonzero(marked != 256, size=num_escapes)
    return at // TILE_ELEMS, at % TILE_ELEMS, marked[at]


def _relative(
    x: jax.Array, base: jax.Array, spec: FloatSpec
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Bits, exponent, and exponent - base, which is large for what is below the base."""
    bits = lax.bitcast_convert_type(x, jnp.uint16)
    exponent = (bits >> spec.mantissa_bits) & np.uint16(spec.num_exponents - 1)
    return bits, exponent, exponent - base.astype(jnp.uint16)


def _pack(positions: jax.Array, spec: FloatSpec) -> jax.Array:
    """Undo the first step of `_window`."""
    halves = positions.reshape(-1, 8, LANES, 8, 2)
    pairs = lax.bitcast_convert_type(halves, jnp.uint32).swapaxes(2, 3)
    groups = pairs.reshape(-1, 4, PAIR_WORDS_PER_GROUP, LANES)
    count = words_per_group(spec)
    words = [groups[:, :, index] for index in range(count)]
    for index, pieces in enumerate(secondary_pieces(spec)):
        for piece in pieces:
            part = groups[:, :, count + index] & np.uint32(piece.mask)
            moved = part << piece.left if piece.left > 0 else part >> -piece.left
            words[piece.word] = words[piece.word] | moved
    stacked = jnp.stack(words, axis=2).reshape(-1, count, WORDS_PER_LOAD, LANES)
    return stacked.swapaxes(2, 3)


def _to_positions(x: jax.Array, layout: str, filler: int = 0) -> jax.Array:
    """Undo `_from_positions`; what lies beyond the matrix is `filler`."""
    rows_first = layout == LAYOUT_MMA
    rows, depth = x.shape[-2:] if rows_first else x.shape[:-3:-1]
    groups, steps = matrix_grid(rows, depth)
    edges = (groups * MMA_GROUP_ROWS - rows, steps * MMA_TILE_DEPTH - depth)
    edges = edges if rows_first else edges[::-1]
    matrices = x.reshape(-1, *x.shape[-2:])
    padding = [(0, 0, 0), *((0, edge, 0) for edge in edges)]
    padded = lax.pad(matrices, jnp.asarray(filler, x.dtype), padding)
    rows_split, depth_split = (groups, MMA_GROUP_TILES, 2, 8), (steps, 4, 2, 2, 2, 4, 2)
    if rows_first:
        split, order = (*rows_split, *depth_split), (1, 5, 2, 6, 7, 4, 10, 8, 9, 3, 11)
    else:
        split, order = (*depth_split, *rows_split), (8, 1, 9, 2, 3, 11, 6, 4, 5, 10, 7)
    moved = padded.reshape(-1, *split).transpose(0, *order)
    return moved.reshape(-1, TILE_ELEMS)


def _window(words: jax.Array, base: jax.Array, spec: FloatSpec) -> jax.Array:
    """Every element as if it were in the window: uint16 [T, 4096 positions]."""
    count = words_per_group(spec)
    groups = words.swapaxes(2, 3).reshape(-1, 4, count, LANES)
    pairs = [groups & np.uint32(kept_mask(spec))]
    for pieces in secondary_pieces(spec):
        parts = []
        for piece in pieces:
            word = groups[:, :, piece.word : piece.word + 1]
            moved = word >> piece.left if piece.left > 0 else word << -piece.left
            parts.append(moved & np.uint32(piece.mask))
        pairs.append(functools.reduce(operator.or_, parts))
    stacked = jnp.concatenate(pairs, axis=2)
    stacked = stacked + (base.astype(jnp.uint32) << spec.mantissa_bits) * np.uint32(0x00010001)
    # [T, load, word of it, lane] to [T, load, lane, word], and the halves of a word
    by_load = stacked.reshape(-1, 8, 8, LANES).swapaxes(2, 3)
    return lax.bitcast_convert_type(by_load, jnp.uint16).reshape(-1, TILE_ELEMS)


def _tile_of(offsets: jax.Array, count: int) -> jax.Array:
    """The tile of each of `count` list members; one that is not there beyond the last."""
    starts = jnp.zeros(count, jnp.int32).at[offsets[1:]].add(1, mode="drop")
    return jnp.cumsum(starts)


def _lift(
    out: jax.Array,
    tile: jax.Array,
    position: jax.Array,
    exponent: jax.Array,
    base: jax.Array,
    spec: FloatSpec,
) -> jax.Array:
    """Raise exponents from the base to what they are."""
    lift = (exponent.astype(jnp.uint16) - base.astype(jnp.uint16)) << spec.mantissa_bits
    return out.at[tile, position.astype(jnp.int32)].add(lift, mode="drop")


def _from_positions(positions: jax.Array, shape: tuple[int, ...], layout: str) -> jax.Array:
    """[T, 4096 positions] as the tensor; see `format.tiles_of_positions` and neighbours."""
    rows, depth = shape[-2:] if layout == LAYOUT_MMA else shape[:-3:-1]
    groups, steps = matrix_grid(rows, depth)
    # [B, group, step, tile, g, i // 8, r, q, i // 4 % 2, i // 2 % 2, i % 2, half]
    split = positions.reshape(-1, groups, steps, MMA_GROUP_TILES, 4, 2, 8, 4, 2, 2, 2, 2)
    rows_axes, depth_axes = (1, 3, 10, 6), (2, 4, 5, 8, 9, 7, 11)
    axes = (*rows_axes, *depth_axes) if layout == LAYOUT_MMA else (*depth_axes, *rows_axes)
    moved = split.transpose(0, *axes)
    padded = (groups * MMA_GROUP_ROWS, steps * MMA_TILE_DEPTH)
    padded = padded if layout == LAYOUT_MMA else padded[::-1]
    matrices = moved.reshape(-1, *padded)[:, : shape[-2], : shape[-1]]
    return matrices.reshape(shape)
