"""Device functions on 128 NumPy lanes: the very source that runs on a GPU, on bits."""

import ml_dtypes
import numpy as np
import pytest

from pallas_kernels.codecs import triple_bitmap_mma
from pallas_kernels.format import float_spec, matrix_grid
from pallas_kernels.lanes import ArrayLanes, ArrayMemory, logic_table
from pallas_kernels.lanes.inline import Fragment, fragment_matrix, fragment_words
from pallas_kernels.mma.decode_tile import (
    PLANE_NBYTES,
    decode_groups,
    fill_plane,
    load_ends,
    load_escapes,
    load_exponents,
    restore_plane,
    write_escapes,
)
from pallas_kernels.mma.kernel_decode import _decode_and_store
from pallas_kernels.mma.kernel_encode import encode_tiles
from pallas_kernels.mma.products import Mma, _decode_and_multiply
from tests.pallas_kernels.mma_cases import PAIR_DTYPES, awkward, bits_of, every_pattern, gaussian

LANES = ArrayLanes()


def steps_of(streams, shape, visit):
    """What a kernel does with each warpgroup's tiles: visit(group, step, half, tiles, plane)."""
    memory = {name: ArrayMemory(stream.copy()) for name, stream in streams.items()}
    base, table = load_exponents(LANES, memory["exponents"])
    plane = ArrayMemory(np.zeros(PLANE_NBYTES, np.uint8))
    fill_plane(LANES, plane, base)
    groups, steps = matrix_grid(*shape)
    for group, step, half in np.ndindex(groups, steps, 2):
        number = group * steps + step
        ends = load_ends(LANES, memory["tile_offsets"], LANES.const(half), LANES.const(number))
        escapes = load_escapes(LANES, memory["patches"], ends)
        addresses = write_escapes(LANES, memory["rare_entries"], plane, table, escapes)
        first = 8 * number + 4 * half
        visit(group, step, half, ArrayMemory(streams["words"][first : first + 4].copy()), plane)
        restore_plane(LANES, memory["rare_entries"], plane, base, escapes, addresses)
        assert (plane.data == streams["exponents"][0]).all()


@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
@pytest.mark.parametrize("case", [gaussian, awkward, every_pattern])
def test_decoding_in_registers_is_exact(case, dtype):
    x = case(dtype) if case is every_pattern else case((200, 300), dtype)
    spec, streams = float_spec(dtype), triple_bitmap_mma.encode(x, "mma16x256")
    groups, steps = matrix_grid(*x.shape)
    out = np.zeros((groups * 128, steps * 256), np.uint16)

    def visit(group, step, half, tiles, plane):
        row = 128 * group + 64 * half
        for number, words in enumerate(decode_groups(LANES, tiles, plane, spec)):
            column = 256 * step + 64 * number
            part = fragment_matrix(words, Fragment(64, np.dtype(np.uint16)))
            out[row : row + 64, column : column + 64] = part

    steps_of(streams, x.shape, visit)
    np.testing.assert_array_equal(out[: x.shape[0], : x.shape[1]], bits_of(x))


@pytest.mark.parametrize("layout", ["mma16x256", "mma256x16"])
def test_storing_decoded_tiles_is_exact(layout):
    x = awkward((128, 512) if layout == "mma16x256" else (512, 128), PAIR_DTYPES[0])
    out = np.full(x.shape, 0xABCD, np.uint16)
    rows_first = layout == "mma16x256"

    def visit(group, step, half, tiles, plane):
        column, row = 256 * step, 128 * group + 64 * half
        at = (row, column) if rows_first else (column, row)
        target = ArrayMemory(out.reshape(-1)[at[0] * x.shape[1] + at[1] :])
        arguments = (float_spec(x.dtype), rows_first, x.shape[1])
        _decode_and_store(*arguments, LANES, tiles, plane, target)

    streams = triple_bitmap_mma.encode(x, layout)
    steps_of(streams, x.shape if rows_first else x.shape[::-1], visit)
    np.testing.assert_array_equal(out, bits_of(x))


@pytest.mark.parametrize("layout", ["mma16x256", "mma256x16"])
@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
@pytest.mark.parametrize("case", [awkward, every_pattern])
def test_encoding_writes_the_oracles_words(case, dtype, layout):
    rows_first = layout == "mma16x256"
    x = every_pattern(dtype) if case is every_pattern else awkward((128, 512), dtype)
    x = x if rows_first else np.ascontiguousarray(x.T)
    want = triple_bitmap_mma.encode(x, layout)
    exponents = ArrayMemory(want["exponents"].copy())
    for step, half in np.ndindex(2, 2):
        at = (64 * half, 256 * step) if rows_first else (256 * step, 64 * half)
        source = ArrayMemory(x.reshape(-1)[at[0] * x.shape[1] + at[1] :].copy())
        target = ArrayMemory(np.zeros_like(want["words"][:4]))
        encode_tiles(float_spec(dtype), rows_first, x.shape[1], LANES, source, exponents, target)
        tiles = want["words"][8 * step + 4 * half :][:4]
        np.testing.assert_array_equal(target.data.view(np.uint32), tiles.reshape(-1))


@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
@pytest.mark.parametrize("columns", [8, 32])
def test_the_product_on_every_gpus_instruction(dtype, columns):
    """Operand B as `Mma.operand` arranges it, operand A from the decoder, sums of a whole depth."""
    w, x = gaussian((128, 512), dtype), gaussian((1, columns, 512), dtype, seed=1)
    operand = np.asarray(Mma(columns).operand(x))
    acc = [[LANES.const(0)] * (4 * columns // 8) for _ in range(2)]
    spec = float_spec(dtype)

    def visit(_, step, half, tiles, plane):
        block = ArrayMemory(operand[0, step].copy())
        (acc[half],) = _decode_and_multiply(
            LANES, tiles, plane, block, acc[half], spec=spec, columns=columns
        )

    steps_of(triple_bitmap_mma.encode(w, "mma16x256"), w.shape, visit)
    kind = Fragment(columns, np.dtype(np.float32))
    y = np.concatenate([fragment_matrix(words, kind) for words in acc])
    exact = w.astype(np.float64) @ x[0].astype(np.float64).T
    size = np.abs(w.astype(np.float64)) @ np.abs(x[0].astype(np.float64)).T
    assert (np.abs(y - exact) <= size * 513 * 2.0**-24).all()


def test_fragments_there_and_back():
    for kind in (Fragment(64, np.dtype(ml_dtypes.bfloat16)), Fragment(16, np.dtype(np.float32))):
        matrix = np.random.default_rng(0).standard_normal(kind.shape).astype(kind.dtype)
        words = [np.asarray(word) for word in fragment_words(matrix, kind)]
        np.testing.assert_array_equal(fragment_matrix(words, kind), matrix)


def test_operations_of_one_instruction():
    a = np.random.default_rng(0).integers(0, 1 << 32, 128, dtype=np.uint32)
    c = a[::-1].copy()
    table = logic_table(lambda a, b, c: (a & b) ^ ~c)
    np.testing.assert_array_equal(LANES.masked(a, 0x0F0F, c, table), (a & 0x0F0F) ^ ~c)
    np.testing.assert_array_equal(LANES.pick_bytes(a, 0x4241), (a >> 8 & 255) | (a & 0xFF0000))
    np.testing.assert_array_equal(LANES.multiply_add(a, 129, c), a * np.uint32(129) + c)
    lane = LANES.lane_in_group()
    np.testing.assert_array_equal(LANES.shuffle(lane, lane ^ 5), lane ^ 5)
    np.testing.assert_array_equal(LANES.shuffle(lane, LANES.const(33)), (lane & 96) + 1)
    np.testing.assert_array_equal(LANES.transpose_block(LANES.transpose_block(a)), a)
    minus_one = LANES.const(-1)
    np.testing.assert_array_equal(LANES.min(minus_one, LANES.const(3)), minus_one)


def test_loops_end_for_each_warp_by_itself():
    memory = ArrayMemory(np.zeros(128, np.uint32))
    lane = LANES.lane_in_group()
    stop = LANES.mul(LANES.shr(lane, 5), LANES.const(3))

    def count(_):
        at = LANES.shl(lane, 2)
        LANES.store(memory, at, LANES.add(LANES.load(memory, at, 32), LANES.const(1)), 32)

    LANES.loop(LANES.const(0), stop, 1, count, [memory])
    np.testing.assert_array_equal(memory.data.view(np.uint32), np.repeat([0, 3, 6, 9], 32))


def test_accesses_that_a_gpu_would_punish_are_found():
    memory = ArrayMemory(np.zeros(64, np.uint8))
    with pytest.raises(AssertionError, match="misaligned"):
        LANES.load(memory, LANES.const(2), 32)
    with pytest.raises(AssertionError, match="out of bounds"):
        LANES.store(memory, LANES.const(64), LANES.const(0), 8)
    with pytest.raises(AssertionError, match="misaligned"):
        LANES.load_vector(memory, LANES.const(8), 4)
