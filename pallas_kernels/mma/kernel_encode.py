"""The main stream of an mma layout from a matrix in device memory: one read, one write.

A warpgroup of a block takes 64 rows by 256 depths. Lanes load four bytes each, two neighbouring
elements, in the order of operand A (transposed between lanes where rows come last), and work on
both at once:

    v    = exponent + 2^E - base            in each half; in the window if 2^E <= v < 2^E + 8
    code = v mod 8 there, else 0

then pack 16 words into W and store them 16 bytes at a time. What is outside the window is found by
XLA (`tiles.mma`), which costs by the size of the matrix, too, but stores nothing of it.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format import (
    LAYOUT_MMA,
    MMA_GROUP_ROWS,
    MMA_GROUP_TILES,
    MMA_TILE_DEPTH,
    PAIR_WORDS_PER_GROUP,
    WORDS_PER_LOAD,
    FloatSpec,
    secondary_pieces,
    words_per_group,
)
from pallas_kernels.lanes import WARP_LANES, Lanes, Memory, Word, logic_table
from pallas_kernels.lanes.inline import device_function
from pallas_kernels.mma.decode_tile import COMPUTE_WARPGROUPS
from pallas_kernels.mma.kernel_decode import block_offset, first_word
from pallas_kernels.mma.steps import THREAD_NAME

_BOTH = 0x00010001
_OR = logic_table(lambda a, b, c: (a & b) | c)


def encode_matrices(
    x: jax.Array, exponents: jax.Array, *, spec: FloatSpec, layout: str, interpret: Any = False
) -> jax.Array:
    """The words of matrices.

    Args:
        x: [B, groups * 128, steps * 256] or, rows last, [B, steps * 256, groups * 128].
        exponents: uint8 [17], of which the first is the window's base.
        spec: the float.
        layout: which of the last two axes are the rows.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        words: uint32 [T, W, 32, 4].
    """
    rows_first = layout == LAYOUT_MMA
    num_matrices, *sizes = x.shape
    rows, depth = sizes if rows_first else sizes[::-1]
    groups, steps = rows // MMA_GROUP_ROWS, depth // MMA_TILE_DEPTH
    count = words_per_group(spec)
    call = functools.partial(device_function, interpret=bool(interpret))

    def kernel(x_gmem, exponents_gmem, words):
        matrix, group, step = (lax.axis_index(name) for name in ("matrix", "rows", "depth"))
        warpgroup = lax.axis_index(THREAD_NAME)
        row = pl.ds(group * MMA_GROUP_ROWS + warpgroup * 64, 64)
        column = pl.ds(step * MMA_TILE_DEPTH, MMA_TILE_DEPTH)
        source = x_gmem.at[matrix, row, column] if rows_first else x_gmem.at[matrix, column, row]
        first_tile = ((matrix * groups + group) * steps + step) * MMA_GROUP_TILES
        target = words.at[pl.ds(first_tile + 4 * warpgroup, 4)]
        # In interpret mode the source is a copy of the slice, by itself.
        stride = (MMA_TILE_DEPTH if rows_first else 64) if interpret else x.shape[-1]
        call(
            functools.partial(encode_tiles, spec, rows_first, stride),
            memories=[source, exponents_gmem, target],
            writes=[2],
        )

    words = plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct(
            (num_matrices * groups * steps * MMA_GROUP_TILES, count, WARP_LANES * WORDS_PER_LOAD),
            "uint32",
        ),
        grid=(num_matrices, groups, steps),
        grid_names=("matrix", "rows", "depth"),
        num_threads=COMPUTE_WARPGROUPS,
        thread_name=THREAD_NAME,
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )(x, exponents)
    return words.reshape(-1, count, WARP_LANES, WORDS_PER_LOAD)


def encode_tiles(
    spec: FloatSpec,
    rows_first: bool,
    stride: int,
    lanes: Lanes,
    source: Memory,
    exponents: Memory,
    target: Memory,
) -> None:
    """64 rows by 256 depths at `source`, `stride` elements a line, to four tiles of words."""
    count = words_per_group(spec)
    base = lanes.mul(lanes.load(exponents, lanes.const(0), 8), lanes.const(_BOTH))
    first = first_word(lanes, rows_first, stride)
    stored: list[Word] = []
    for number in range(4):
        kept = []
        for index in range(PAIR_WORDS_PER_GROUP):
            block = block_offset(number, index, rows_first, stride)
            pair = lanes.load_element(source, lanes.add(first, lanes.const(block)))
            pair = pair if rows_first else lanes.transpose_block(pair)
            kept.append(_keep(lanes, pair, base, spec))
        stored += _pack(lanes, kept, spec)
    thread = lanes.lane_in_group()
    warp, lane = lanes.shr(thread, 5), lanes.and_(thread, lanes.const(WARP_LANES - 1))
    at = lanes.add(
        lanes.mul(warp, lanes.const(count * WARP_LANES * 16)), lanes.mul(lane, lanes.const(16))
    )
    for load in range(count):
        offset = lanes.add(at, lanes.const(load * WARP_LANES * 16))
        lanes.store_vector(target, offset, stored[4 * load : 4 * load + 4])


def _keep(lanes: Lanes, pair: Word, base: Word, spec: FloatSpec) -> Word:
    """Sign, code and mantissa of two elements."""
    guard = 1 << spec.exponent_bits
    exponent = lanes.and_(lanes.shr(pair, spec.mantissa_bits), lanes.const((guard - 1) * _BOTH))
    value = lanes.sub(lanes.add(exponent, lanes.const(guard * _BOTH)), base)
    # Above its low three bits a value in the window has the guard bit and nothing else.
    wrong = lanes.and_(
        lanes.logic(value, lanes.const(guard * _BOTH), value, logic_table(lambda a, b, c: a ^ b)),
        lanes.const((2 * guard - 8) * _BOTH),
    )
    escapes = lanes.shr(
        lanes.and_(
            lanes.add(wrong, lanes.const((2 * guard - 1) * _BOTH)), lanes.const(2 * guard * _BOTH)
        ),
        spec.exponent_bits + 1,
    )
    keep_code = lanes.mul(lanes.sub(lanes.const(_BOTH), escapes), lanes.const(7))
    code = lanes.shl(lanes.and_(value, keep_code), spec.mantissa_bits)
    mask = (0x8000 | ((1 << spec.mantissa_bits) - 1)) * _BOTH
    return lanes.masked(pair, mask, code, _OR)


def _pack(lanes: Lanes, kept: Sequence[Word], spec: FloatSpec) -> list[Word]:
    """W words of 16 pair words: `format.pack_pairs`."""
    count = words_per_group(spec)
    words = list(kept[:count])
    for pair, pieces in zip(kept[count:], secondary_pieces(spec), strict=True):
        for piece in pieces:
            left = piece.left
            moved = lanes.shl(pair, left) if left > 0 else lanes.shr(pair, -left)
            mask = piece.mask << left if left > 0 else piece.mask >> -left
            words[piece.word] = lanes.masked(moved, mask, words[piece.word], _OR)
    return words
