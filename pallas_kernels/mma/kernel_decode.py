"""Decode into device memory: tiles from shared memory through registers to where they belong.

A block of the grid decodes 128 rows of one share of the depth (`mma.steps`). Lanes store four bytes
each, two neighbouring elements; eight groups of four lanes fill half a sector each and the next
store the other half, which the level-2 cache puts together. For matrices stored with their rows
last, 8 x 8 blocks are transposed between lanes first (`movmatrix`).
"""

import functools
from typing import Any

import jax
from jax import lax
from jax.experimental import pallas as pl

from pallas_kernels.format import (
    LAYOUT_MMA,
    MMA_GROUP_ROWS,
    MMA_TILE_DEPTH,
    MMA_TILE_ROWS,
    PAIR_WORDS_PER_GROUP,
    FloatSpec,
)
from pallas_kernels.lanes import Lanes, Memory, Word
from pallas_kernels.mma.decode_tile import decode_groups
from pallas_kernels.mma.steps import (
    NUM_THREADS,
    THREAD_NAME,
    StreamRefs,
    decode_steps,
    stream_operands,
    tile_kernel,
)

_NUM_STAGES = 3


def decode_matrices(
    streams: dict[str, jax.Array],
    *,
    spec: FloatSpec,
    layout: str,
    num_matrices: int,
    groups: int,
    steps: int,
    num_splits: int,
    interpret: Any = False,
) -> jax.Array:
    """All matrices of a tensor in an mma layout, padded to whole tiles.

    Args:
        streams: of the tensor.
        spec: the float.
        layout: which of the last two axes are the rows.
        num_matrices: B.
        groups: of 128 rows in a matrix.
        steps: of 256 depths.
        num_splits: blocks that share a group of rows; divides `steps`.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        matrices: [B, groups * 128, steps * 256] or, rows last, [B, steps * 256, groups * 128].
    """
    rows_first = layout == LAYOUT_MMA
    local = steps // num_splits
    rows, depth = groups * MMA_GROUP_ROWS, steps * MMA_TILE_DEPTH
    shape = (num_matrices, rows, depth) if rows_first else (num_matrices, depth, rows)

    def kernel(words, offsets, patches, rare, exponents, out, plane_smem):
        matrix, group = lax.axis_index("matrix"), lax.axis_index("rows")
        share, warpgroup = lax.axis_index("share"), lax.axis_index(THREAD_NAME)
        first_step = share * local

        def store(call, step, state, tiles, plane):
            row = pl.ds(group * MMA_GROUP_ROWS + warpgroup * 64, 64)
            column = pl.ds((first_step + step) * MMA_TILE_DEPTH, MMA_TILE_DEPTH)
            target = out.at[matrix, row, column] if rows_first else out.at[matrix, column, row]
            # In interpret mode the target is a copy of the slice, by itself.
            stride = (MMA_TILE_DEPTH if rows_first else 64) if interpret else shape[-1]
            call(
                functools.partial(_decode_and_store, spec, rows_first, stride),
                memories=[tiles, plane, target],
                writes=[2],
            )
            return state

        decode_steps(
            StreamRefs(words, offsets, patches, rare, exponents),
            plane_smem.at[warpgroup],
            warpgroup,
            (matrix * groups + group) * steps + first_step,
            spec=spec,
            num_steps=local,
            num_stages=_NUM_STAGES,
            scope=lambda run: run(()),
            consume=store,
            interpret=bool(interpret),
        )

    return tile_kernel(
        kernel,
        jax.ShapeDtypeStruct(shape, spec.dtype),
        {"matrix": num_matrices, "rows": groups, "share": num_splits},
        num_threads=NUM_THREADS,
        interpret=interpret,
    )(*stream_operands(streams, spec))


def _decode_and_store(
    spec: FloatSpec,
    rows_first: bool,
    stride: int,
    lanes: Lanes,
    words: Memory,
    plane: Memory,
    target: Memory,
) -> None:
    """A warpgroup's 64 rows by 256 depths to where `target` starts, `stride` elements a line."""
    first = first_word(lanes, rows_first, stride)
    for number, group in enumerate(decode_groups(lanes, words, plane, spec)):
        assert len(group) == PAIR_WORDS_PER_GROUP
        for index, word in enumerate(group):
            block = block_offset(number, index, rows_first, stride)
            word = word if rows_first else lanes.transpose_block(word)
            lanes.store_element(target, lanes.add(first, lanes.const(block)), word)


def first_word(lanes: Lanes, rows_first: bool, stride: int) -> Word:
    """Number of a lane's first word, of two neighbouring elements, in a matrix of 64 rows.

    Lane 4 r + q has line r of an 8 x 8 block, elements 2 q and 2 q + 1: a line is a row or, where
    rows come last, a depth.

    Args:
        lanes: the lanes.
        rows_first: whether lines are rows.
        stride: elements from one line to the next.
    """
    thread = lanes.lane_in_group()
    warp, lane = lanes.shr(thread, 5), lanes.and_(thread, lanes.const(31))
    line, pair = lanes.shr(lane, 2), lanes.and_(lane, lanes.const(3))
    warp_words = MMA_TILE_ROWS * (stride if rows_first else 1) // 2
    return lanes.add(
        lanes.mul(warp, lanes.const(warp_words)),
        lanes.add(lanes.mul(line, lanes.const(stride // 2)), pair),
    )


def block_offset(group: int, index: int, rows_first: bool, stride: int) -> int:
    """How many words further the block of pair word `index` of a 64-deep group is."""
    row = 8 * (index % 2)
    depth = 64 * group + 16 * (index // 4) + 8 * (index // 2 % 2)
    return (row * stride + depth) // 2 if rows_first else (depth * stride + row) // 2
