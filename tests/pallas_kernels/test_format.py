"""Splitting floats, packing rows, choosing windows, and refusing streams that cannot be."""

import math

import numpy as np
import pytest

from pallas_kernels import (
    ArgumentError,
    CompressedTensor,
    FormatError,
    UnsupportedError,
    dtype_from_name,
    dtype_name,
)
from pallas_kernels.codecs import triple_bitmap
from pallas_kernels.format import (
    bit_view,
    escape_rate_gaussian,
    float_spec,
    join,
    pack_rows,
    split,
    unpack_rows,
    window_from_histogram,
    window_from_sigma,
)
from pallas_kernels.format.dtypes import DTYPES
from tests.support.equal import assert_same_bits
from tests.support.weights import CODED, every_pattern, gaussian

coded = pytest.mark.parametrize("name", CODED)


@coded
def test_split_and_join_are_inverse_on_every_pattern(name):
    dtype = dtype_from_name(name)
    spec = float_spec(dtype)
    bits = bit_view(every_pattern(dtype))
    exponent, remainder = split(bits, spec)
    assert exponent.max() == spec.num_exponents - 1
    assert int(remainder.max()) < 1 << spec.remainder_bits
    assert_same_bits(join(exponent, remainder, spec), bits)


@coded
def test_the_exponent_is_floor_log2(name):
    dtype = dtype_from_name(name)
    spec = float_spec(dtype)
    for power in (-2, -1, 0, 1, 2):
        x = np.array([1.5 * 2.0**power, -(2.0**power)]).astype(dtype)
        exponent, remainder = split(bit_view(x), spec)
        assert list(exponent.astype(int) - spec.exponent_bias) == [power, power]
        assert list(remainder >> spec.mantissa_bits) == [0, 1]


def test_rows_pack_as_the_format_says():
    codes = np.random.default_rng(0).integers(0, 8, (3, 16, 256))
    words = pack_rows(codes)
    assert (words.dtype, words.shape) == (np.uint16, (3, 3, 256))
    for row in range(15):  # the formula of docs/format.md, element by element
        np.testing.assert_array_equal(words[:, row // 5] >> 3 * (row % 5) & 7, codes[:, row])
    top = sum((words[:, k] >> 15).astype(int) << k for k in range(3))
    np.testing.assert_array_equal(top, codes[:, 15])
    np.testing.assert_array_equal(unpack_rows(words), codes)


def test_window_from_histogram_covers_most():
    rng = np.random.default_rng(0)
    for _ in range(50):
        histogram = rng.integers(0, 100, 256)
        base = window_from_histogram(histogram)
        covered = [histogram[b : b + 8].sum() for b in range(249)]
        assert covered[base] == max(covered)
        assert base == covered.index(max(covered))


def test_window_from_sigma_is_the_best_of_all_on_a_fine_grid():
    """Brute force over windows at 4096 sigmas an octave, over three octaves."""
    for k in range(-4096, 2 * 4096):
        sigma = 2.0 ** (k / 4096 - 6)
        chosen = window_from_sigma(sigma)
        near = math.floor(math.log2(sigma))
        best = min(escape_rate_gaussian(sigma, b) for b in range(near - 12, near + 3))
        assert escape_rate_gaussian(sigma, chosen) == best, sigma


@pytest.mark.parametrize("log2_sigma", [-120.3, -14.7, 0.0, 9.1, 118.9])
def test_window_from_sigma_moves_with_sigma(log2_sigma):
    sigma = 2.0**log2_sigma
    assert window_from_sigma(2 * sigma) == window_from_sigma(sigma) + 1
    assert window_from_sigma(sigma, exponent_bias=127) == window_from_sigma(sigma) + 127


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan])
def test_window_from_sigma_refuses(sigma):
    with pytest.raises(ArgumentError, match="sigma must be positive and finite"):
        window_from_sigma(sigma)


def test_window_from_sigma_agrees_with_the_histogram_of_samples():
    rng = np.random.default_rng(1)
    for sigma in (0.02, 0.9, 3e-5):
        x = (rng.standard_normal(1 << 20) * sigma).astype(np.float32)
        exponent, _ = split(bit_view(x), float_spec(x.dtype))
        by_histogram = window_from_histogram(np.bincount(exponent, minlength=256))
        assert by_histogram == window_from_sigma(sigma, exponent_bias=127)


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_names_round_trip(name):
    assert dtype_name(dtype_from_name(name)) == name


def test_unknown_dtypes_are_refused_with_advice():
    with pytest.raises(UnsupportedError, match="did you mean 'bfloat16'"):
        dtype_from_name("bfloat")
    with pytest.raises(UnsupportedError, match="astype"):
        dtype_name(np.dtype(">f4"))
    for foreign in (np.dtype(object), np.dtype("U3"), np.dtype([("a", "f4")])):
        with pytest.raises(UnsupportedError, match="native number type"):
            dtype_name(foreign)


class TestStreams:
    """`CompressedTensor.from_streams` refuses what no encoder can have written."""

    @pytest.fixture
    def parts(self):
        x = gaussian(dtype_from_name("bfloat16"), (3 * 4096 + 5,))
        streams = {name: a.copy() for name, a in triple_bitmap.encode(x).items()}
        streams["rare_tiles"] = np.array([0, 2], np.uint32)
        streams["rare_entries"] = np.array([5 << 8 | 1, 7 << 8 | 255], np.uint32)
        return dict(
            codec="triple_bitmap", layout="rows16", dtype=x.dtype, shape=x.shape, streams=streams
        )

    def test_accepts_what_was_encoded(self, parts):
        assert CompressedTensor.from_streams(**parts).size == 3 * 4096 + 5

    @pytest.mark.parametrize(
        ("field", "value", "message"),
        [
            ("codec", "huffman", "codec must be one of triple_bitmap, raw"),
            ("layout", "c11", "layout of triple_bitmap must be one of rows16"),
            ("dtype", np.dtype(np.int32), "holds floats with a coded exponent"),
            ("shape", (-1,), "sizes must be integers of at least 0"),
            ("shape", (True,), "sizes must be integers"),
            ("shape", (5,), "stream 'codes' must be uint16"),
        ],
    )
    def test_refuses_fields(self, parts, field, value, message):
        with pytest.raises((FormatError, UnsupportedError), match=message):
            CompressedTensor.from_streams(**parts | {field: value})

    @pytest.mark.parametrize(
        ("name", "change", "message"),
        [
            ("codes", lambda a: a.astype(np.uint32), "must be uint16"),
            ("codes", lambda a: a[:-1], "must be uint16"),
            ("remainder", lambda a: a[:-1], "must be uint8"),
            ("exponents", lambda a: _put(a, 0, 249), "base must be at most 248"),
            ("patch_offsets", lambda a: _put(a, 0, 1), "must rise from 0"),
            ("patch_offsets", lambda a: _put(a, 1, a[2] + 1), "must rise from 0"),
            ("patch_offsets", lambda a: _put(a, -1, 2**32 - 1), "must rise from 0"),
            ("patches", lambda a: a[:-1], "number of patches"),
            ("patches", lambda a: _put(a, 1, a[0]), "patch positions must rise"),
            ("rare_tiles", lambda a: _put(a, 1, 4), "rare_tiles must be below 4"),
            ("rare_tiles", lambda a: a[:1], "must be of one length"),
            ("rare_tiles", lambda a: a[::-1].copy(), "rare entries must rise"),
            ("rare_entries", lambda a: _put(a, 0, 4096 << 8), "below position 4096"),
            ("rare_entries", lambda a: _put(a, 0, 2**32 - 1), "below position 4096"),
        ],
    )
    def test_refuses_streams(self, parts, name, change, message):
        parts["streams"][name] = change(parts["streams"][name])
        with pytest.raises(FormatError, match=message):
            CompressedTensor.from_streams(**parts)

    def test_refuses_missing_and_unknown_streams(self, parts):
        without = {k: v for k, v in parts["streams"].items() if k != "patches"}
        for streams in (without, parts["streams"] | {"extra": np.zeros(1)}):
            with pytest.raises(FormatError, match="must have the streams"):
                CompressedTensor.from_streams(**parts | {"streams": streams})

    def test_refuses_exponents_a_narrow_float_has_not(self):
        x = gaussian(dtype_from_name("float8_e4m3fn"), (4096,))
        streams = triple_bitmap.encode(x)
        streams["exponents"][3] = 16
        with pytest.raises(FormatError, match="must be below 16"):
            CompressedTensor.from_streams(
                codec="triple_bitmap",
                layout="rows16",
                dtype=x.dtype,
                shape=x.shape,
                streams=streams,
            )


def _put(array, index, value):
    array[index] = value
    return array
