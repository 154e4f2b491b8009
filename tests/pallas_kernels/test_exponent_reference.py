"""The `xla` backend of `exponent_encode` and `exponent_decode` against the oracle, leaf by leaf."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ExponentConfig, exponent_decode, exponent_encode
from pallas_kernels.codecs import position_slots
from pallas_kernels.ops.exponent_decode import reference as decode_reference
from pallas_kernels.ops.exponent_encode import reference as encode_reference
from tests.pallas_kernels.exponent_cases import DTYPES, WORDS, all_patterns, bits_of, hostile

configs = pytest.mark.parametrize(
    "config", [ExponentConfig(), ExponentConfig.gaussian()], ids=["broad", "gaussian"]
)
dtypes = pytest.mark.parametrize("name", DTYPES)


def assert_same_leaves(streams, expected, message=""):
    assert sorted(streams) == sorted(expected)
    for name, stream in expected.items():
        np.testing.assert_array_equal(
            np.asarray(streams[name]), stream, err_msg=f"{name} {message}"
        )


def bits(x):
    x = np.asarray(x)
    return x.view(WORDS[x.dtype.itemsize])


@dtypes
@configs
def test_equal_to_the_oracle_on_hostile_inputs(name, config):
    dtype = DTYPES[name]
    n = 70_001
    encode = jax.jit(lambda x: exponent_encode(x, config))
    decode = jax.jit(exponent_decode)
    num_exact = 0
    for case, words in hostile(dtype, n).items():
        payload = encode(words.view(dtype))
        expected = position_slots.encode(words, payload.layout)
        assert_same_leaves(payload.streams, expected, case)
        num_far = position_slots.split_side(expected["side"], payload.layout)[3]
        assert payload.num_far == num_far
        assert payload.overflow == (num_far > payload.layout.far_capacity)
        if not payload.overflow:
            np.testing.assert_array_equal(bits(decode(payload)), words, err_msg=case)
            num_exact += 1
    assert num_exact > 10


@dtypes
@configs
def test_wrong_bases_are_exact_or_flagged(name, config):
    dtype = DTYPES[name]
    n = 65_536  # no padding, so that the words can be given as they are
    layout = config.layout(dtype, n)
    assert layout.padded_elems == n
    encode = jax.jit(lambda words, base: encode_reference.encode_words(words, base, layout))
    decode = jax.jit(lambda streams: decode_reference.decode_words(streams, layout))
    bases = [np.full((1, 16, 16), base, np.uint8) for base in (0, 116, 255)]
    bases.append(np.random.default_rng(3).integers(0, 256, (1, 16, 16), dtype=np.uint8))
    for case, words in hostile(dtype, n).items():
        for base in bases:
            streams = encode(words, base)
            assert_same_leaves(streams, position_slots.encode(words, layout, base), case)
            num_far = position_slots.split_side(np.asarray(streams["side"]), layout)[3]
            if num_far <= layout.far_capacity:
                np.testing.assert_array_equal(np.asarray(decode(streams)), words, err_msg=case)


@dtypes
@pytest.mark.parametrize("code_bits", [3, 4])
@pytest.mark.parametrize("base", [None, 3, 200])
def test_every_pattern_in_window_slot_or_list(name, code_bits, base):
    """With room for all, each of the 65,536 patterns travels, and with a wrong base by the list."""
    dtype = DTYPES[name]
    words = all_patterns(dtype)
    config = ExponentConfig(code_bits=code_bits, elems_per_far=1)
    if base is None:
        payload = exponent_encode(words.view(dtype), config)
        assert not payload.overflow
        np.testing.assert_array_equal(bits(exponent_decode(payload)), words)
    else:
        layout = config.layout(dtype, words.size)
        bases = np.full((layout.num_tiles, 16, 16), base, np.uint8)
        encode = jax.jit(lambda words, base: encode_reference.encode_words(words, base, layout))
        decode = jax.jit(lambda streams: decode_reference.decode_words(streams, layout))
        np.testing.assert_array_equal(np.asarray(decode(encode(words, bases))), words)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("bfloat16", ()),
        ("float16", (0,)),
        ("float32", (3, 0, 2)),
        ("float32", (1,)),
        ("float16", (7, 3)),
        ("float32", (1, 1, 300)),
        ("bfloat16", (97, 131)),
        ("bfloat16", (100, 100)),  # whole runs, then runs of padding alone
    ],
)
def test_any_shape(name, shape):
    x = np.asarray(np.random.default_rng(5).standard_normal(shape)).astype(DTYPES[name])
    payload = exponent_encode(x)
    back = exponent_decode(payload)
    assert (back.shape, back.dtype) == (shape, x.dtype)
    np.testing.assert_array_equal(bits(back), bits(x))
    words = bits(x).reshape(-1)
    assert_same_leaves(payload.streams, position_slots.encode(words, payload.layout))


@dtypes
@pytest.mark.parametrize(
    "config",
    [
        ExponentConfig(code_bits=3, num_slots=2, elems_per_far=16),
        ExponentConfig(code_bits=3, num_slots=12, elems_per_far=512, max_run_elems=64),
        ExponentConfig(code_bits=4, num_slots=2, elems_per_far=64, max_run_elems=512),
        ExponentConfig(num_slots=255, elems_per_far=4096, max_run_elems=8),
    ],
)
def test_other_configs(name, config):
    dtype = DTYPES[name]
    words = hostile(dtype, 30_000)["silu"]
    payload = jax.jit(exponent_encode, static_argnums=1)(words.view(dtype), config)
    assert payload.layout.num_slots == config.num_slots
    assert payload.layout.run_elems <= config.max_run_elems
    assert_same_leaves(payload.streams, position_slots.encode(words, payload.layout))
    assert not payload.overflow
    np.testing.assert_array_equal(bits(exponent_decode(payload)), words)


@dtypes
def test_several_tiles_and_a_mixed_last_run(name):
    words = bits_of(np.random.default_rng(6).standard_normal(300_123), DTYPES[name])
    payload = jax.jit(exponent_encode)(words.view(DTYPES[name]))
    layout = payload.layout
    assert layout.num_tiles == 5
    assert layout.num_elems % layout.run_elems
    assert_same_leaves(payload.streams, position_slots.encode(words, layout))
    np.testing.assert_array_equal(bits(jax.jit(exponent_decode)(payload)), words)


@dtypes
def test_vmap_is_the_same_as_one_by_one(name):
    dtype = DTYPES[name]
    names = ("gauss", "an eighth zeros", "random bits", "row scales 2**3")
    words = np.stack([hostile(dtype, 9_000)[case] for case in names])
    payload = jax.jit(jax.vmap(exponent_encode))(words.view(dtype))
    assert payload.num_far.shape == payload.overflow.shape == (4,)
    assert payload.overflow.tolist() == [False, False, True, False]
    for k in range(4):
        alone = exponent_encode(words[k].view(dtype))
        assert_same_leaves(jax.tree.map(lambda leaf, k=k: leaf[k], payload.streams), alone.streams)
    back = jax.jit(jax.vmap(exponent_decode))(payload)
    np.testing.assert_array_equal(bits(back)[[0, 1, 3]], words[[0, 1, 3]])


def test_inputs_are_left_alone():
    words = hostile(DTYPES["bfloat16"], 5_000)["few specials"]
    kept = words.copy()
    exponent_encode(words.view(DTYPES["bfloat16"]))
    np.testing.assert_array_equal(words, kept)


def test_strict_promotion():
    """Callers run with strict dtype promotion and no rank promotion."""
    x = jnp.ones((40, 30), jnp.float32)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        back = jax.jit(lambda x: exponent_decode(exponent_encode(x)))(x)
    np.testing.assert_array_equal(bits(back), bits(x))
