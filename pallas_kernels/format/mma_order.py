"""Layouts `mma16x256` and `mma256x16`: weights in the order in which tensor cores take them.

A tile is 16 rows (outputs of a matrix product) by 256 depths (the axis that is summed over): what
one warp feeds to sixteen `mma` instructions of depth 16. Row and depth are the tensor's last two
axes, in the order that the layout's name gives them. In a tile

    pair word T[t, lane], t = 16 g + i < 64, lane = 4 r + q < 32, holds two elements:
        row   = r + 8 (i % 2)
        depth = 64 g + 16 (i // 4) + 8 ((i // 2) % 2) + 2 q      low half
              = the same + 1                                      high half
    position = 512 (t // 8) + 16 lane + 2 (t % 8) + half

which is the order of registers of the A operand of `mma.m16n8k16` and `wgmma.m64nNk16` (PTX ISA,
sections on matrix fragments of wgmma and mma.m16n8k16), four 64-deep groups g after each other.

An element keeps W = M + 4 bits: the sign in bit 15, code << M | mantissa in the low ones. Of the 16
pair words of a group W lie in place ("primary") and leave 12 - M bits of each half free; those hold
the other 16 - W ("secondary") in pieces: 16 W bits in W words of 16 bits, nothing wasted. So one
`lop3` finishes two weights of a primary word.
"""

from typing import NamedTuple

import numpy as np

from pallas_kernels.format.floats import FloatSpec

MMA_TILE_ROWS = 16
MMA_TILE_DEPTH = 256
MMA_GROUP_TILES = 8  # tiles of 128 consecutive rows lie together: what two warpgroups share
LOOK_AHEAD_TILES = 2 * MMA_GROUP_TILES  # a kernel loads offsets two groups before it needs them
MMA_GROUP_ROWS = MMA_GROUP_TILES * MMA_TILE_ROWS
PAIR_WORDS = 64  # of a lane, in a tile
PAIR_WORDS_PER_GROUP = 16
LANES = 32
WORDS_PER_LOAD = 4  # a lane loads four words, 16 bytes, at once

_BOTH = 0x00010001  # a constant in both halves of a word


class Piece(NamedTuple):
    """Some bits of a secondary pair word and where they are kept.

    Attributes:
        word: the primary word whose free bits hold them.
        mask: the bits, in the secondary word, both halves.
        left: how far left of there they are kept; negative for right.
    """

    word: int
    mask: int
    left: int


def words_per_group(spec: FloatSpec) -> int:
    """Stored words of 16 pair words of a lane: as many as an element has bits."""
    return spec.mantissa_bits + 4


def kept_mask(spec: FloatSpec) -> int:
    """The bits of a pair word that are sign, code and mantissa."""
    return (0x8000 | ((1 << (spec.mantissa_bits + 3)) - 1)) * _BOTH


def secondary_pieces(spec: FloatSpec) -> tuple[tuple[Piece, ...], ...]:
    """The pieces of each secondary pair word, in order.

    bfloat16: word i of 5 as 5 + 5 bits in the free bits of primary words 2i and 2i + 1 and the sign
    in word 10. float16: word i of 2 as six times 2 bits in words 7i to 7i + 5, and its sign and
    lowest bit in word 7i + 6.
    """
    if spec.mantissa_bits == 7:
        return tuple(
            (
                Piece(2 * i, 0x03E0 * _BOTH, 5),
                Piece(2 * i + 1, 0x001F * _BOTH, 10),
                Piece(10, 0x8000 * _BOTH, i - 5),
            )
            for i in range(5)
        )
    assert spec.mantissa_bits == 10, "only 16-bit floats come in pairs"
    return tuple(
        (
            *(Piece(7 * i + j, (3 << 11 - 2 * j) * _BOTH, 2 + 2 * j) for j in range(6)),
            Piece(7 * i + 6, 0x8000 * _BOTH, -1),
            Piece(7 * i + 6, 0x0001 * _BOTH, 13),
        )
        for i in range(2)
    )


def pack_pairs(pairs: np.ndarray, spec: FloatSpec) -> np.ndarray:
    """Pack the pair words of tiles.

    Args:
        pairs: uint32 [T, 64, 32], sign, code and mantissa of two elements each, the rest 0.
        spec: the float, of 16 bits.

    Returns:
        words: uint32 [T, W, 32, 4]; word 4j + v of a lane is words[:, j, lane, v].
    """
    groups = pairs.reshape(-1, 4, PAIR_WORDS_PER_GROUP, LANES)
    primary = words_per_group(spec)
    words = groups[:, :, :primary].copy()
    for index, pieces in enumerate(secondary_pieces(spec)):
        secondary = groups[:, :, primary + index]
        for piece in pieces:
            words[:, :, piece.word] |= _shift(secondary & np.uint32(piece.mask), piece.left)
    by_load = words.reshape(-1, primary, WORDS_PER_LOAD, LANES)
    return np.ascontiguousarray(by_load.swapaxes(2, 3))


def unpack_pairs(words: np.ndarray, spec: FloatSpec) -> np.ndarray:
    """Undo `pack_pairs`: uint32 [T, 64, 32]."""
    primary = words_per_group(spec)
    groups = words.swapaxes(2, 3).reshape(-1, 4, primary, LANES)
    kept = [groups[:, :, index] & np.uint32(kept_mask(spec)) for index in range(primary)]
    for pieces in secondary_pieces(spec):
        parts = [
            _shift(groups[:, :, piece.word], -piece.left) & np.uint32(piece.mask)
            for piece in pieces
        ]
        kept.append(np.bitwise_or.reduce(parts))
    return np.stack(kept, axis=2).reshape(-1, PAIR_WORDS, LANES)


def positions_of_tiles(tiles: np.ndarray) -> np.ndarray:
    """Tiles [T, 16 rows, 256 depths] as [T, 4096 positions]."""
    # rows are [i % 2, r], depths [g, i // 8, i // 4 % 2, i // 2 % 2, q, half]
    split = tiles.reshape(len(tiles), 2, 8, 4, 2, 2, 2, 4, 2)
    return split.transpose(0, 3, 4, 2, 7, 5, 6, 1, 8).reshape(len(tiles), 4096)


def tiles_of_positions(positions: np.ndarray) -> np.ndarray:
    """Undo `positions_of_tiles`."""
    num_tiles = len(positions)
    split = positions.reshape(num_tiles, 4, 2, 8, 4, 2, 2, 2, 2).transpose(
        0, 7, 3, 1, 2, 5, 6, 4, 8
    )
    return split.reshape(num_tiles, MMA_TILE_ROWS, MMA_TILE_DEPTH)


def pairs_of_positions(positions: np.ndarray) -> np.ndarray:
    """Elements uint16 [T, 4096 positions] as pair words uint32 [T, 64, 32]."""
    split = np.ascontiguousarray(positions).view("<u4").reshape(-1, 8, LANES, 8)
    return split.swapaxes(2, 3).reshape(-1, PAIR_WORDS, LANES)


def positions_of_pairs(pairs: np.ndarray) -> np.ndarray:
    """Undo `pairs_of_positions`."""
    split = pairs.reshape(-1, 8, 8, LANES).swapaxes(2, 3)
    return np.ascontiguousarray(split).view("<u2").reshape(-1, 4096)


def matrix_grid(rows: int, depth: int) -> tuple[int, int]:
    """How many groups of 128 rows and how many tiles of 256 depths cover a matrix."""
    return -(-rows // MMA_GROUP_ROWS), -(-depth // MMA_TILE_DEPTH)


def tiles_of_matrices(matrices: np.ndarray) -> np.ndarray:
    """Matrices [B, rows, depth], padded with zeros, as tiles [T, 16, 256].

    Tiles are in the order [B, groups of 128 rows, depth, 8 tiles of the group].
    """
    batch, rows, depth = matrices.shape
    groups, steps = matrix_grid(rows, depth)
    padded = np.zeros((batch, groups * MMA_GROUP_ROWS, steps * MMA_TILE_DEPTH), matrices.dtype)
    padded[:, :rows, :depth] = matrices
    split = padded.reshape(batch, groups, MMA_GROUP_TILES, MMA_TILE_ROWS, steps, MMA_TILE_DEPTH)
    num_tiles = batch * groups * steps * MMA_GROUP_TILES
    by_tile = split.transpose(0, 1, 4, 2, 3, 5)
    return by_tile.reshape(num_tiles, MMA_TILE_ROWS, MMA_TILE_DEPTH)


def matrices_of_tiles(tiles: np.ndarray, batch: int, rows: int, depth: int) -> np.ndarray:
    """Undo `tiles_of_matrices`."""
    groups, steps = matrix_grid(rows, depth)
    split = tiles.reshape(batch, groups, steps, MMA_GROUP_TILES, MMA_TILE_ROWS, MMA_TILE_DEPTH)
    padded = split.transpose(0, 1, 3, 4, 2, 5).reshape(
        batch, groups * MMA_GROUP_ROWS, steps * MMA_TILE_DEPTH
    )
    return padded[:, :rows, :depth]


def _shift(words: np.ndarray, left: int) -> np.ndarray:
    return words << np.uint32(left) if left >= 0 else words >> np.uint32(-left)
