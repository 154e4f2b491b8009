"""The NumPy oracle of the wire format: round trips, counts, and one payload worked out by hand."""

import numpy as np
import pytest

from pallas_kernels.codecs import position_slots
from pallas_kernels.format.slot_layout import SlotLayout
from tests.pallas_kernels.exponent_cases import DTYPES, all_patterns, bits_of, count_far, hostile

dtypes = pytest.mark.parametrize("name", DTYPES)


def plan(dtype, n, slots=8, per_far=1024, run=512, bits=3):
    return SlotLayout.plan(
        dtype, n, code_bits=bits, num_slots=slots, elems_per_far=per_far, max_run_elems=run
    )


def round_trip(words, layout, base=None):
    """Encode, check the declared shapes, decode; returns (num_far, words)."""
    streams = position_slots.encode(words, layout, base)
    declared = layout.streams()
    assert list(streams) == list(declared)
    for name, (dtype, shape) in declared.items():
        assert (streams[name].dtype, streams[name].shape) == (dtype, shape)
    num_far = position_slots.split_side(streams["side"], layout)[3]
    return num_far, position_slots.decode(streams, layout)


@dtypes
@pytest.mark.parametrize("bits", [3, 4])
def test_exact_or_flagged_on_hostile_inputs_and_wrong_bases(name, bits):
    dtype = DTYPES[name]
    n = 20_011
    layout = plan(dtype, n, bits=bits)
    num_exact = 0
    for case, words in hostile(dtype, n).items():
        for fixed in (None, 0, 17, 116, 255):
            shape = (layout.num_tiles, 16, 16)
            base = None if fixed is None else np.full(shape, fixed, np.uint8)
            num_far, back = round_trip(words, layout, base)
            used = position_slots.choose_base(words, layout) if base is None else base
            assert num_far == count_far(words, used, dtype, layout), (case, fixed)
            if num_far <= layout.far_capacity:
                np.testing.assert_array_equal(back, words, err_msg=f"{case}, base {fixed}")
                num_exact += 1
    assert num_exact > 10  # the loop above did decode


@dtypes
def test_every_pattern_comes_back_when_the_list_has_room(name):
    words = all_patterns(DTYPES[name])
    layout = plan(DTYPES[name], words.size, per_far=1)
    for base in (None, np.full((layout.num_tiles, 16, 16), 200, np.uint8)):
        num_far, back = round_trip(words, layout, base)
        assert num_far <= layout.far_capacity
        np.testing.assert_array_equal(back, words)


@dtypes
@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 2047, 8191, 8192 + 1])
def test_any_size(name, n):
    words = bits_of(np.random.default_rng(n).standard_normal(n), DTYPES[name])
    num_far, back = round_trip(words, plan(DTYPES[name], n))
    assert num_far <= 32
    np.testing.assert_array_equal(back, words)


def test_padding_is_never_an_escape():
    # 1e30 stands alone in the last run that holds data: a padding of zeros would be far from it.
    words = bits_of(np.append(np.full(10_040, 0.02), 1e30), DTYPES["bfloat16"])
    layout = plan(DTYPES["bfloat16"], words.size)
    assert words.size % layout.run_elems == 1
    num_far, back = round_trip(words, layout)
    assert num_far == 0
    np.testing.assert_array_equal(back, words)


def test_a_payload_worked_by_hand():
    """256 elements, so L = 1 and every run is one element; base 127 makes 1.0 relative 0."""
    dtype = DTYPES["bfloat16"]
    layout = plan(dtype, 256, slots=2)
    values = np.full(256, 1.0)
    values[16 * 3 + 2] = 256.0  # i = 3, j = 2: relative 8, near, code 0
    values[16 * 9 + 2] = -0.75  # i = 9, j = 2: relative -1, near, code 7
    values[16 * 1 + 5] = 0.625  # i = 1, j = 5: a third near one, so the list takes it
    values[16 * 4 + 0] = 2.0**20  # i = 4, j = 0: relative 20, code 4, far
    base = np.full((1, 16, 16), 127, np.uint8)
    streams = position_slots.encode(bits_of(values, dtype), layout, base)

    assert streams["slots"].reshape(-1).tolist() == [2 << 4 | 3, 2 << 4 | 9]
    remainder = streams["remainder"]
    assert remainder[16 * 3 + 2] == 0
    # -0.75 is sign, exponent 126, mantissa 0.5: below the base nothing borrows from the sign here,
    # because 0xbf40 - 0x3f80 = 0x7fc0: the sign of w is 0 and its exponent field is 255 = -1.
    assert remainder[16 * 9 + 2] == 0x40
    code = position_slots.unpack_rows(streams["code"], 3, layout)
    assert code[[16 * 3 + 2, 16 * 9 + 2, 16 * 1 + 5, 16 * 4]].tolist() == [0, 7, 7, 4]
    _, exponent, position, num_far = position_slots.split_side(streams["side"], layout)
    assert num_far == 2
    assert position[:3].tolist() == [16 * 4, 16 * 1 + 5, 256]  # in order of unit; then unused
    assert exponent[:3].tolist() == [20, 255, 0]


@pytest.mark.parametrize("n", [8192, 10_000, 33_333, 131_072, 131_073, 1_000_003, 16 << 20])
def test_padding_costs_about_three_percent_at_most(n):
    layout = plan(DTYPES["bfloat16"], n)
    assert n <= layout.padded_elems <= n * 1.033
    assert layout.run_elems <= 512


def test_the_example_of_the_format_document():
    """docs/wire-format.md, section 6, byte for byte."""
    dtype = DTYPES["bfloat16"]
    values = np.array([1.0, -2.5, 0.0, 100.0, 2.0**-15, 1e-30])
    layout = plan(dtype, 6, slots=4, per_far=256, run=256, bits=4)
    base = np.full((1, 16, 16), 0x75, np.uint8)
    streams = position_slots.encode(bits_of(values, dtype), layout, base)
    side = "75" * 256 + "a6" + "00" * 31 + "05000000" + "00010000" * 31 + "01000000"
    expected = {
        "remainder": "00a0004880a2" + "00" * 250,
        "code": "0a000b00000000000b000600" + "00" * 116,
        "slots": "30403030",
        "side": side,
    }
    assert {name: stream.tobytes().hex() for name, stream in streams.items()} == expected
    np.testing.assert_array_equal(position_slots.decode(streams, layout), bits_of(values, dtype))
