"""The sum in rank order against NumPy, on every kind of number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parallel.collectives.rank_sum import rank_sum
from tests.parallel.inputs import any_bits, assert_same_bits

NUM_RANKS = 5


NARROW = ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_add_in_float32_and_round_once(dtype):
    parts = any_bits(dtype, (NUM_RANKS, 3001))
    want = np.zeros(3001, np.float32)
    for rank in range(NUM_RANKS):
        want = want + parts[rank].astype(np.float32)
    assert_same_bits(jax.jit(rank_sum)(parts), want.astype(parts.dtype))


def test_order_and_precision_matter_here():
    """The inputs of the test above tell other definitions from this one."""
    parts = any_bits("float32", (NUM_RANKS, 3001))
    assert (np.asarray(rank_sum(parts)) != np.asarray(rank_sum(parts[::-1]))).any()
    parts = any_bits("bfloat16", (NUM_RANKS, 3001))
    narrow = parts[0]
    for rank in range(1, NUM_RANKS):
        narrow = (narrow + parts[rank]).astype(parts.dtype)
    assert (np.asarray(rank_sum(parts)) != narrow).any()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "complex64"])
def test_others_add_in_their_own_type(dtype):
    parts = any_bits(dtype, (NUM_RANKS, 301))
    want = parts[0]
    for rank in range(1, NUM_RANKS):
        want = want + parts[rank]
    assert_same_bits(jax.jit(rank_sum)(parts), want)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_nan_result_is_the_canonical_one(dtype):
    """Whichever payloads and signs went in, and wherever it came from."""
    bits = np.dtype(f"uint{8 * jnp.dtype(dtype).itemsize}")
    infinity = np.array(np.inf, dtype).view(bits)
    parts = np.array([[infinity + 1, infinity, 0], [infinity + 3, 0, 0], [0, 0, 0]], bits)
    parts[1, 1] = np.array(-np.inf, dtype).view(bits)
    total = np.asarray(jax.jit(rank_sum)(parts.view(dtype))).view(bits)
    canonical = np.array(np.nan, dtype).view(bits)
    assert total.tolist() == [canonical, canonical, 0]


def test_zero_keeps_its_sign():
    parts = np.array([[-0.0, -0.0], [-0.0, 0.0]], np.float32)
    assert_same_bits(jax.jit(rank_sum)(parts), np.array([-0.0, 0.0], np.float32))


def test_rounding_survives_a_caller_that_widens_again():
    """XLA may drop a narrowing that is widened at once; then 1 + 2**-9 would not round."""
    parts = np.array([[1.0], [2.0**-9]], jnp.bfloat16)
    widened = jax.jit(lambda parts: rank_sum(parts).astype(jnp.float32))(parts)
    assert_same_bits(widened, np.ones(1, np.float32))
