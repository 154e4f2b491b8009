"""Causal models with and without a cache, and their folders."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import nnx

from tests.support.equal import assert_same_bits
from tests.zipjax.model_cases import CASES, ROPES
from zipjax.models import CausalLM, config_from_hf, config_to_hf, load_model, save_model

NUM_TOKENS = 12


def draw_model(config, seed=0):
    """A model whose norms, biases and corrections are no longer ones and zeros."""
    model = CausalLM(config, rngs=nnx.Rngs(seed))
    rng = np.random.default_rng(seed)

    def shake(x):
        return x + 0.1 * rng.normal(size=x.shape).astype(x.dtype) if x.ndim == 1 else 2 * x

    nnx.update(model, jax.tree.map(shake, nnx.state(model, nnx.Param)))
    return model


def draw_tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 64, shape).astype(np.int32)


call = nnx.jit(lambda model, tokens, **more: model(tokens, **more))


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return draw_model(CASES[request.param])


def test_a_cache_gives_what_the_whole_sequence_gives(case):
    """Prompts of unequal length, padded left and right, then a token each, then one of them."""
    tokens = draw_tokens(2, NUM_TOKENS)
    whole, _ = call(case, tokens)
    cache = case.init_cache(2, 2 * NUM_TOKENS)
    prompts = np.stack([np.append([0, 0], tokens[0, :5]), tokens[1, :7]])
    positions = np.array([[-1, -1, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6]])
    logits, cache = call(case, prompts, positions=positions, cache=cache)
    np.testing.assert_allclose(logits[0, 2:], whole[0, :5], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(logits[1], whole[1, :7], rtol=1e-4, atol=1e-5)
    logits, cache = call(case, np.array([[tokens[0, 5]], [tokens[1, 7]]]), cache=cache)
    np.testing.assert_allclose(logits[:, 0], [whole[0, 5], whole[1, 7]], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(cache.num_written, [6, 8])
    last = np.array([[tokens[0, 6]], [0]])
    logits, cache = call(case, last, positions=np.array([[6], [-1]]), cache=cache)
    np.testing.assert_allclose(logits[0, 0], whole[0, 6], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(cache.num_written, [7, 8])


def test_columns_pick_logits(case):
    tokens = draw_tokens(2, NUM_TOKENS)
    whole, _ = call(case, tokens)
    picked, _ = call(case, tokens, columns=np.array([[3], [11]]))
    assert picked.shape == (2, 1, 64)
    np.testing.assert_allclose(picked[:, 0], [whole[0, 3], whole[1, 11]], rtol=1e-4, atol=1e-5)


def test_a_full_cache_is_loud(case):
    cache = case.init_cache(1, 4)
    logits, _ = call(case, draw_tokens(1, 6), cache=cache)
    assert np.isfinite(logits[0, :4]).all()
    assert np.isnan(logits[0, 4:]).all()


@pytest.mark.parametrize("name", CASES)
def test_a_folder_gives_back_the_model(name, tmp_path):
    model = draw_model(CASES[name])
    save_model(tmp_path, model, shard_nbytes_max=30_000)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    loaded = load_model(tmp_path)
    assert loaded.config == model.config
    assert_same_bits(nnx.state(loaded), nnx.state(model))


@pytest.mark.parametrize("name", ROPES)
def test_a_config_survives(name):
    config = dataclasses.replace(CASES["llama"], rope=ROPES[name])
    assert config_from_hf(config_to_hf(config)) == config
