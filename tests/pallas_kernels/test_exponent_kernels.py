"""The kernels of the wire code: their device functions on 128 NumPy lanes, whole, and compiled.

On lanes and in interpret mode it is the source that runs on a GPU, and what it makes is compared
with the oracle leaf by leaf. Memory that a kernel must write, or must not trust, starts as rubbish.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import (
    H200,
    ExponentConfig,
    UnsupportedError,
    assume,
    exponent_decode,
    exponent_encode,
)
from pallas_kernels.codecs import position_slots
from pallas_kernels.lanes import ArrayLanes, ArrayMemory
from pallas_kernels.ops.exponent_decode import mosaic_gpu as decode_kernel
from pallas_kernels.ops.exponent_decode.kernel_units import decode_block
from pallas_kernels.ops.exponent_decode.reference import complete_far, split_side
from pallas_kernels.ops.exponent_encode import mosaic_gpu as encode_kernel
from pallas_kernels.ops.exponent_encode.base_choice import choose_among
from pallas_kernels.ops.exponent_encode.far_list import list_marked
from pallas_kernels.ops.exponent_encode.kernel_escapes import Escapes
from pallas_kernels.ops.exponent_encode.kernel_exponents import sample_block
from pallas_kernels.ops.exponent_encode.kernel_units import encode_block
from pallas_kernels.slots import BLOCK_GROUPS, MASKS_NBYTES, num_blocks, vector_elems
from tests.pallas_kernels.exponent_cases import DTYPES, WORDS, all_patterns, bits_of, hostile
from tests.pallas_kernels.interpret import check_no_race, interpret_params

LANES = ArrayLanes()
CONFIGS = {"broad": ExponentConfig(), "gaussian": ExponentConfig.gaussian()}
configs = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
dtypes = pytest.mark.parametrize("name", DTYPES)


_choose_among = jax.jit(choose_among, static_argnames="layout")
_list_marked = jax.jit(list_marked, static_argnames="layout")


@functools.partial(jax.jit, static_argnames="layout")
def _completed(words, side, layout):
    return complete_far(words, *split_side(side, layout), layout)


def rubbish(shape, dtype=np.uint8):
    nbytes = np.dtype(dtype).itemsize * int(np.prod(shape))
    noise = np.random.default_rng(7).integers(0, 256, nbytes, dtype=np.uint8)
    return noise.view(dtype).reshape(shape)


def choose_base_on_lanes(words, layout):
    """As the kernel and what follows it choose."""
    shapes = ((layout.num_runs,), (layout.num_runs,), (layout.num_runs, 4))
    base, known, missed = (rubbish(shape) for shape in shapes)
    for block in range(layout.num_runs // 128):
        own = slice(128 * block, 128 * block + 128)
        out = [ArrayMemory(array[own]) for array in (base, known, missed)]
        sample_block(LANES, layout, ArrayMemory(words.copy()), *out, LANES.const(block))
    return np.asarray(_choose_among(base, known, missed.sum(0, dtype=np.int32), layout))


def encode_on_lanes(words, base, layout):
    """Every leaf, as the kernel and what follows it make them."""
    groups = layout.num_tiles * layout.run_elems
    specs = {name: spec for name, spec in layout.streams().items() if name != "side"}
    out = {name: rubbish(shape, dtype) for name, (dtype, shape) in specs.items()}
    marks = {"num_listed": rubbish(groups, np.uint16), "listed": rubbish((groups, 16), np.uint16)}
    memory = {name: ArrayMemory(array) for name, array in (out | marks).items()}
    for block in range(num_blocks(layout)):
        sizes = (MASKS_NBYTES, MASKS_NBYTES, BLOCK_GROUPS * layout.num_slots)
        escapes = Escapes(*(ArrayMemory(rubbish(size)) for size in sizes))
        operands = (ArrayMemory(words.copy()), ArrayMemory(base), escapes, memory)
        encode_block(LANES, layout, *operands, LANES.const(block))
    side = _list_marked(words, base, *marks.values(), layout)
    return out | {"side": np.asarray(side)}


def decode_on_lanes(streams, layout):
    """All words, as the kernel and what follows it make them."""
    out = rubbish(layout.num_elems, layout.word_dtype)
    memory = {name: ArrayMemory(stream.copy()) for name, stream in streams.items()}
    for block in range(num_blocks(layout)):
        masks = ArrayMemory(rubbish(MASKS_NBYTES))
        decode_block(LANES, layout, memory, masks, ArrayMemory(out), LANES.const(block))

    return np.asarray(_completed(out, streams["side"], layout))


def check_on_lanes(words, layout, base=None, message=""):
    """Encoded and decoded like the oracle's, and exactly unless it overflows; returns that."""
    if base is None:
        base = position_slots.choose_base(words, layout)
        chosen = choose_base_on_lanes(words, layout)
        np.testing.assert_array_equal(chosen, base, err_msg=message)
    expected = position_slots.encode(words, layout, base)
    assert_same_leaves(encode_on_lanes(words, base, layout), expected, message)
    overflows = position_slots.split_side(expected["side"], layout)[3] > layout.far_capacity
    if not overflows:
        decoded = decode_on_lanes(expected, layout)
        np.testing.assert_array_equal(decoded, words, err_msg=message)
    return overflows


def assert_same_leaves(streams, expected, message=""):
    assert sorted(streams) == sorted(expected)
    for name, stream in expected.items():
        np.testing.assert_array_equal(
            np.asarray(streams[name]), stream, err_msg=f"{name} {message}"
        )


@dtypes
@configs
def test_hostile_inputs(name, config):
    dtype = DTYPES[name]
    layout = config.layout(dtype, 5000)
    cases = hostile(dtype, layout.num_elems)
    overflows = [check_on_lanes(words, layout, message=case) for case, words in cases.items()]
    assert 10 < overflows.count(False) < len(cases)


@dtypes
@pytest.mark.parametrize("code_bits", [3, 4])
def test_every_pattern_with_any_base(name, code_bits):
    """With room for all, patterns are in the window, in slots and in the list."""
    config = ExponentConfig(code_bits=code_bits, elems_per_far=1, num_slots=20)
    words = all_patterns(DTYPES[name])
    layout = config.layout(DTYPES[name], words.size)
    bases = np.random.default_rng(3).integers(0, 256, (1, 16, 16), dtype=np.uint8)
    assert not check_on_lanes(words, layout, bases)


@pytest.mark.parametrize(
    ("name", "num_elems", "config", "elems"),
    [
        ("bfloat16", 1, ExponentConfig(), 1),
        ("float16", 31, ExponentConfig.gaussian(), 1),
        ("bfloat16", 4 * 1009, ExponentConfig(num_slots=255), 4),
        ("float32", 5003, ExponentConfig(elems_per_far=16), 1),
        ("float16", 2 * 256 * 8 + 4, ExponentConfig(max_run_elems=8), 1),
        ("float32", 3 * 256 * 8, ExponentConfig(max_run_elems=8, num_slots=2), 4),
        ("float16", 66_000, ExponentConfig(), 4),
    ],
)
def test_any_size_of_tensor_and_payload(name, num_elems, config, elems):
    """Pieces of one and of four elements, several tiles in a block, padding, many slots."""
    dtype = DTYPES[name]
    layout = config.layout(dtype, num_elems)
    assert vector_elems(layout) == elems
    values = np.random.default_rng(num_elems).standard_t(3, num_elems)
    check_on_lanes(bits_of(values, dtype), layout)


def test_operations_of_one_instruction():
    a, b = np.random.default_rng(0).integers(0, 1 << 32, (2, 128), dtype=np.uint32)
    a[:3] = 0, 1, 1 << 31
    merged = LANES.merge_bytes(a, b, 0xC350)
    top = (b >> 7 & 1) * 255
    expected = (a & 255) | (b >> 8 & 255) << 8 | (a >> 24) << 16 | top << 24
    np.testing.assert_array_equal(merged, expected)
    bits = [[word >> i & 1 for i in range(32)] for word in a.tolist()]
    np.testing.assert_array_equal(LANES.popcount(a), [sum(each) for each in bits])
    lowest = [each.index(1) if any(each) else 32 for each in bits]
    np.testing.assert_array_equal(LANES.lowest_bit(a), lowest)
    np.testing.assert_array_equal(LANES.divide(a, 132), a // 132)
    np.testing.assert_array_equal(LANES.shl_by(a, b & 31), (a << (b & 31)) & 0xFFFFFFFF)


def test_a_large_memory_is_addressed_in_64_bits():
    """Tiles of a large payload are out of the reach of 32-bit offsets."""
    memory = ArrayMemory(np.zeros(16, np.uint8))
    far = LANES.moved(memory, LANES.const(40_000), 1 << 20)
    back = LANES.const(1 << 31)
    with pytest.raises(AssertionError, match="out of bounds"):
        LANES.load(far, LANES.const(0), 8)
    with pytest.raises(AssertionError, match="out of bounds"):
        LANES.load(memory, back, 8)


def test_without_such_a_gpu_xla_does_it():
    x = jnp.full((3, 5), 1.5, jnp.bfloat16)
    with pytest.raises(UnsupportedError, match="the wire kernels run on Ampere, Ada, Hopper"):
        exponent_encode(x, implementation="mosaic_gpu")
    payload = exponent_encode(x)
    with pytest.raises(UnsupportedError, match="the wire kernels run on Ampere, Ada, Hopper"):
        exponent_decode(payload, implementation="mosaic_gpu")
    assert (exponent_decode(payload) == x).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_elems", "blocks", "batch"), [("bfloat16", 36_000, 2, 1), ("float32", 1003, 1, 2)]
)
def test_interpreted_in_a_batch(name, num_elems, blocks, batch):
    """Kernels whole, under `vmap`.

    In interpret mode a device function writes back whole arrays, so the race detector takes two
    blocks for a race; blocks then run one after the other.
    """
    config = ExponentConfig(max_run_elems=8, elems_per_far=32)
    dtype = DTYPES[name]
    assert num_blocks(config.layout(dtype, num_elems)) == blocks
    words = bits_of(np.random.default_rng(5).standard_t(3, (batch, num_elems)) * 0.02, dtype)
    interpret = interpret_params(detect_races=blocks == 1)

    def there_and_back(x):
        payload = encode_kernel.exponent_encode(x, config, interpret=interpret)
        return payload, decode_kernel.exponent_decode(payload, interpret=interpret)

    with assume(H200):
        payload, decoded = jax.vmap(there_and_back)(jnp.asarray(words.view(dtype)))
    check_no_race()
    for index in range(batch):
        streams = {leaf: stream[index] for leaf, stream in payload.streams.items()}
        assert_same_leaves(streams, position_slots.encode(words[index], payload.layout))
    assert not payload.overflow.any()
    np.testing.assert_array_equal(np.asarray(decoded).view(WORDS[dtype.itemsize]), words)
