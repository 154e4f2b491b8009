"""`ExponentConfig` and `ExponentPayload`, and what the two ops refuse, with the text of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import (
    ArgumentError,
    ExponentConfig,
    ExponentPayload,
    UnsupportedError,
    exponent_decode,
    exponent_encode,
)
from pallas_kernels.format.slot_layout import MAX_PADDED_ELEMS
from tests.pallas_kernels.exponent_cases import DTYPES


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"code_bits": 5}, "code_bits must be a whole number from 3 to 4; got 5."),
        ({"num_slots": 1}, "num_slots must be a whole number from 2 to 255; got 1."),
        ({"num_slots": 256}, "num_slots must be a whole number from 2 to 255; got 256."),
        ({"num_slots": 8.0}, "num_slots must be a whole number from 2 to 255; got 8.0."),
        ({"elems_per_far": 0}, "elems_per_far must be a whole number from 1 to"),
        ({"elems_per_far": True}, "got True"),
        ({"max_run_elems": 12}, "max_run_elems must be a multiple of 8; got 12; use 256"),
        ({"max_run_elems": 1024}, "max_run_elems must be a whole number from 8 to 512; got 1024."),
    ],
)
def test_config_refuses(knobs, message):
    with pytest.raises(ArgumentError) as refusal:
        ExponentConfig(**knobs)
    assert message in str(refusal.value)


def test_config_is_keyword_only_frozen_and_hashable():
    with pytest.raises(TypeError):
        ExponentConfig(8)
    with pytest.raises(AttributeError):
        ExponentConfig().num_slots = 9
    assert hash(ExponentConfig()) == hash(ExponentConfig(num_slots=4))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("n", [0, 5, 10_000, 140_000])
def test_nbytes_is_what_the_leaves_weigh(name, n):
    x = np.zeros(n, DTYPES[name])
    payload = jax.eval_shape(exponent_encode, x)
    weight = sum(leaf.dtype.itemsize * leaf.size for leaf in jax.tree.leaves(payload))
    assert payload.nbytes == weight
    assert payload.raw_nbytes == x.nbytes
    assert jax.eval_shape(jax.vmap(exponent_encode), np.zeros((3, n), x.dtype)).nbytes == weight


@pytest.mark.parametrize(
    ("config", "want"), [(ExponentConfig(), 12.32), (ExponentConfig.gaussian(), 11.31)]
)
def test_static_bits_per_element(config, want):
    """What the docstring of `ExponentConfig` promises for bfloat16; others add mantissa bits."""
    for name, more in {"bfloat16": 0, "float16": 3, "float32": 16}.items():
        payload = jax.eval_shape(
            lambda x: exponent_encode(x, config), jax.ShapeDtypeStruct((1 << 24,), DTYPES[name])
        )
        assert want - 0.01 < 8 * payload.nbytes / (1 << 24) - more < want


def test_payload_is_a_pytree_of_its_streams():
    payload = exponent_encode(jnp.ones((6, 7), jnp.bfloat16))
    leaves, treedef = jax.tree.flatten(payload)
    assert len(leaves) == len(payload.streams) == 4
    again = jax.tree.unflatten(treedef, leaves)
    assert isinstance(again, ExponentPayload)
    assert (again.shape, again.dtype, again.config) == (
        (6, 7),
        DTYPES["bfloat16"],
        ExponentConfig(),
    )
    assert treedef == jax.tree.structure(exponent_encode(jnp.zeros((6, 7), jnp.bfloat16)))


def test_overflow_is_a_count_above_capacity():
    x = np.zeros(8192, np.float32)
    x[::2] = 1.0  # zeros are far from 1.0
    payload = exponent_encode(x, ExponentConfig.gaussian())
    assert payload.num_far == 4096
    assert payload.layout.far_capacity == 32
    assert payload.overflow
    roomy = exponent_encode(x, ExponentConfig(code_bits=3, elems_per_far=2))
    assert roomy.num_far == roomy.layout.far_capacity == 4096
    assert not roomy.overflow
    np.testing.assert_array_equal(exponent_decode(roomy), x)
    assert exponent_encode(x).num_far == 0  # codes of 4 bits have zero in every window


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "bool", "complex64", "float8_e5m2"])
def test_other_dtypes_are_refused(dtype):
    x = np.zeros(3, jnp.dtype(dtype))
    with pytest.raises(UnsupportedError) as refusal:
        exponent_encode(x)
    assert str(refusal.value) == (
        f"the exponent code takes bfloat16, float16, float32; got {dtype}; send other dtypes raw."
    )


def test_too_many_elements_are_refused():
    x = jax.ShapeDtypeStruct((MAX_PADDED_ELEMS + 1,), jnp.bfloat16)
    with pytest.raises(UnsupportedError, match="holds at most 2147483647 elements; got 2147483648"):
        jax.eval_shape(exponent_encode, x)


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError, match="x must be a NumPy or JAX array; got list"):
        exponent_encode([1.0])
    with pytest.raises(ArgumentError, match="config must be an ExponentConfig; got int"):
        exponent_encode(jnp.zeros(3), 8)
    with pytest.raises(
        ArgumentError, match="only an ExponentPayload can be decoded; got ArrayImpl"
    ):
        exponent_decode(jnp.zeros(3))
    with pytest.raises(ArgumentError, match="did you mean 'xla'"):
        exponent_encode(jnp.zeros(3), implementation="xl")
    batch = jax.jit(jax.vmap(exponent_encode))(jnp.zeros((2, 300)))
    with pytest.raises(ArgumentError, match=r"decode a batch of payloads with jax\.vmap"):
        exponent_decode(batch)
