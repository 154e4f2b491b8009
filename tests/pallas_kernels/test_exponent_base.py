"""The closed form of the base against brute force, and how much room data of many kinds need."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ExponentConfig, exponent_encode
from pallas_kernels.codecs import position_slots
from pallas_kernels.format import escape_rate_gaussian
from pallas_kernels.ops.exponent_encode.base_choice import choose_base
from tests.pallas_kernels.exponent_cases import DTYPES, bits_of, hostile

GAUSSIAN = ExponentConfig.gaussian()


def test_mean_exponent_gives_the_window_that_brute_force_finds():
    """Over a fine grid of sigma, with one base for 65,536 elements whose mean is well known."""
    dtype = DTYPES["float32"]
    normal = np.random.default_rng(7).standard_normal(65_536)
    layout = GAUSSIAN.layout(dtype, normal.size)
    choose = jax.jit(lambda words: choose_base(words, layout))
    rates = []
    for log2_sigma in np.linspace(-6, -5, 65):
        words = bits_of(normal * 2.0**log2_sigma, dtype)
        bases = np.asarray(choose(words)).reshape(-1).astype(int) - 127
        best = min(range(-20, 0), key=lambda b: escape_rate_gaussian(2.0**log2_sigma, b))
        # A sample of 64 may be one off; so is brute force where two windows are equally good.
        assert np.abs(bases - best).max() <= 1
        assert np.bincount(bases - bases.min()).argmax() + bases.min() in (best - 1, best, best + 1)
        least = escape_rate_gaussian(2.0**log2_sigma, best)
        rates.append(np.mean([escape_rate_gaussian(2.0**log2_sigma, b) for b in bases]) / least)
    assert max(rates) < 1.6  # at the step itself, half of the runs take the other window
    assert np.mean(rates) < 1.15


def test_scale_per_run_is_followed():
    rng = np.random.default_rng(8)
    sigma = 2.0 ** rng.uniform(-30, 30, (256, 1))
    words = bits_of((rng.standard_normal((256, 512)) * sigma).reshape(-1), DTYPES["bfloat16"])
    layout = GAUSSIAN.layout(DTYPES["bfloat16"], words.size)
    assert layout.run_elems == 512
    base = position_slots.choose_base(words, layout).reshape(-1).astype(int)
    np.testing.assert_allclose(base, 127 + np.floor(np.log2(sigma[:, 0]) - 5.6), atol=1)


@pytest.mark.parametrize("config", [ExponentConfig(), GAUSSIAN], ids=["broad", "gaussian"])
def test_runs_without_normal_numbers(config):
    """Zeros, subnormals and NaN alone: base 0, or the typical one where zero is in any window."""
    words = np.concatenate([np.zeros(8192), np.full(8192, 1.0)]).astype(np.float32).view(np.uint32)
    words[:64] = 1  # subnormal
    layout = config.layout(DTYPES["float32"], words.size)
    base = np.asarray(choose_base(jnp.asarray(words), layout)).reshape(-1)
    empty, ones = base[:128], base[128:]
    assert len(set(ones)) == 1
    assert set(empty) == ({0} if config.code_bits == 3 else {ones[0]})
    assert exponent_encode(words.view(np.float32), config).num_far == 0


@pytest.mark.parametrize("name", DTYPES)
def test_what_the_tiers_hold(name):
    """The promises of `ExponentConfig`'s docstring that can be made without a model."""
    n = 262_144
    dtype = DTYPES[name]
    encode = jax.jit(lambda x, config: exponent_encode(x, config).overflow, static_argnums=1)
    data = hostile(dtype, n)
    for case in ("gauss", "gauss, worst sigma", "0.05 % zeros", "constant"):
        assert not encode(data[case].view(dtype), GAUSSIAN), case
    broad = ("gauss", "row scales 2**3", "laplace", "student t3", "silu", "product", "5 % zeros")
    for case in broad:
        assert not encode(data[case].view(dtype), ExponentConfig()), case
    normal = np.random.default_rng(9).standard_normal(n)
    for values in (np.maximum(normal, 0), normal * (np.arange(n) // 200 % 3 != 0)):
        assert not encode(bits_of(values, dtype).view(dtype), ExponentConfig())
