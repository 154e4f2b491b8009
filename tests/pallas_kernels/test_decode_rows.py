"""`decode_rows` and what it stands on: rows of a compressed matrix, alone, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ArgumentError, decode_rows, dtype_from_name, encode
from pallas_kernels.ops.decode_rows import reference
from pallas_kernels.tiles import decode_row_block
from tests.pallas_kernels.matrix_cases import coded, patched
from tests.support.equal import assert_same_bits
from tests.support.weights import CODED, gaussian


def check_rows(x: np.ndarray, rows: np.ndarray) -> None:
    found = jax.jit(decode_rows)(coded(x), rows)
    assert_same_bits(found, jnp.asarray(x[rows]))


@pytest.mark.parametrize("name", ["bfloat16", "float32", "float8_e4m3fn"])
def test_rows_full_of_patches(name):
    """Rows inside a tile and across two; rare exponents among them."""
    check_rows(patched(name, (37, 410)), np.array([0, 36, 2, 2]))


def test_rows_that_are_tiles():
    check_rows(patched("bfloat16", (5, 4096)), np.array([0, 4, 2]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CODED)
def test_rows_of_every_dtype_and_width(name):
    for shape in ((37, 410), (5, 4096), (9, 5000), (70, 3)):
        check_rows(patched(name, shape), np.arange(shape[0])[::-1])


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8192, 1), (2, 9001)])
def test_narrow_and_wide(shape):
    check_rows(gaussian(dtype_from_name("bfloat16"), shape), np.array([[0], [shape[0] - 1]]))


def test_all_patches_in_one_tile():
    """The list is read in chunks for an even spread; one tile with all of them takes many."""
    x = np.ones((64, 4096), dtype_from_name("bfloat16"))
    x[40] = patched("bfloat16", (3, 4096))[1]
    check_rows(x, np.array([39, 40, 41]))


def test_blocks_of_rows_at_every_place():
    x = patched("bfloat16", (29, 613))
    weight = coded(x)
    block = jax.jit(lambda row: decode_row_block(weight, row, 4, 613))
    for row in range(26):
        assert_same_bits(block(row), jnp.asarray(x[row : row + 4]))


def test_more_rows_than_fit_at_once(monkeypatch):
    monkeypatch.setattr(reference, "BATCH_ROWS", 16)
    x = gaussian(dtype_from_name("float32"), (50, 300))
    rows = np.random.default_rng(1).integers(0, 50, (5, 7))
    assert_same_bits(decode_rows(coded(x), rows), jnp.asarray(x[rows]))


def test_raw_and_padded_and_out_of_range():
    x = gaussian(dtype_from_name("float16"), (20, 30))
    raw = encode(jnp.asarray(x))
    assert raw.codec == "raw"
    assert_same_bits(decode_rows(raw, np.array([-1, 3, 99])), jnp.asarray(x[[0, 3, 19]]))
    large = gaussian(dtype_from_name("bfloat16"), (300, 256))
    padded = encode(jnp.asarray(large))  # on a device lists have room to spare
    assert padded.streams["patches"].size > int(padded.streams["patch_offsets"][-1])
    assert_same_bits(
        decode_rows(padded, np.array([43, 255], np.uint8)), jnp.asarray(large[[43, 255]])
    )


def test_no_rows_and_empty_rows():
    weight = coded(gaussian(dtype_from_name("bfloat16"), (4, 8)))
    assert decode_rows(weight, np.zeros((0, 2), np.int32)).shape == (0, 2, 8)
    assert decode_rows(encode(jnp.zeros((4, 0))), np.array([1])).shape == (1, 0)


def test_numbers_of_elements_beyond_32_bits():
    """Where a row's tile and place are, with whole numbers of any size as the oracle."""
    from pallas_kernels.tiles.rows import _tiles_of

    for rows, row_elems in ((300_000, 8191), (256, 14_680_064 + 3), (1 << 22, 4097)):
        tiles = -(-rows * row_elems // 4096)
        for row in (0, 1, rows // 3, rows - 1):
            first, offset, count = _tiles_of(jnp.int32(row), 1, row_elems, tiles)
            assert int(first) * 4096 + int(offset) == row * row_elems
            assert int(first) + count <= tiles
            assert int(offset) + row_elems <= count * 4096


def test_refusals():
    weight = coded(gaussian(dtype_from_name("bfloat16"), (4, 8)))
    with pytest.raises(ArgumentError, match=r"CompressedTensor \[V, D\]"):
        decode_rows(jnp.ones((4, 8)), np.array([1]))
    with pytest.raises(ArgumentError, match="rows must be integers; got float32"):
        decode_rows(weight, np.array([1.0], np.float32))
