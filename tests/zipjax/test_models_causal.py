"""Causal models with and without a cache, plain and compressed, and their folders."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pallas_kernels import ArgumentError
from tests.support.equal import assert_same_bits
from tests.zipjax.model_cases import CASES, draw_model
from zipjax.models import load_model, save_model
from zipjax.nn import CompressedParam

NUM_TOKENS = 12
QUICK = ("mistral", "deepseek_v3")  # All of the code is in these two; the others are slow.
PARAMS = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow, id=name) for name in CASES
]


def draw_tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 64, shape).astype(np.int32)


call = nnx.jit(lambda model, tokens, **more: model(tokens, **more))


@pytest.mark.parametrize("name", PARAMS)
def test_a_cache_gives_what_the_whole_sequence_gives(name):
    """Prompts of unequal length, padded left and right, then a token each, then one of them."""
    case = draw_model(CASES[name])
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


def test_columns_pick_logits():
    case = draw_model(CASES["mistral"])
    tokens = draw_tokens(2, NUM_TOKENS)
    whole, _ = call(case, tokens)
    picked, _ = call(case, tokens, columns=np.array([[3], [11]]))
    assert picked.shape == (2, 1, 64)
    np.testing.assert_allclose(picked[:, 0], [whole[0, 3], whole[1, 11]], rtol=1e-4, atol=1e-5)


def test_a_full_cache_is_loud():
    case = draw_model(CASES["mistral"])
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


def assert_same_logits(plain, compressed, tokens):
    """Prefill, then a token."""
    caches = [model.init_cache(*tokens.shape) for model in (plain, compressed)]
    for part in (tokens[:, :-1], tokens[:, -1:]):
        (want, caches[0]), (got, caches[1]) = (
            call(model, part, cache=cache)
            for model, cache in zip((plain, compressed), caches, strict=True)
        )
        assert_same_bits(got, want)
    assert_same_bits(caches[1], caches[0])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "mistral" else pytest.mark.slow) for name in CASES],
)
def test_compressed_gives_the_bits_of_plain(name, tmp_path):
    """Straight from the folder, with every matrix large enough to become smaller."""
    config = dataclasses.replace(CASES[name], width=128, vocab_size=256, dtype="bfloat16")
    save_model(tmp_path, draw_model(config, dtype=jnp.bfloat16))
    plain, compressed = load_model(tmp_path), load_model(tmp_path, compressed=True)
    assert jax.tree.leaves(nnx.state(compressed, CompressedParam))
    assert nbytes_of(compressed) < 0.8 * nbytes_of(plain)
    assert_same_logits(plain, compressed, draw_tokens(2, NUM_TOKENS))


def nbytes_of(model) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model)))


def test_rules_leave_layers_plain(tmp_path):
    config = dataclasses.replace(CASES["mistral"], width=128, vocab_size=256)
    save_model(tmp_path, draw_model(config))
    model = load_model(tmp_path, compressed=True, rules={r"layers\.0\..*|lm_head": "leave"})
    compressed = {path[:2] for path, _ in nnx.to_flat_state(nnx.state(model, CompressedParam))}
    assert compressed == {("embed_tokens", "embedding"), ("layers", 1)}
    with pytest.raises(ArgumentError, match="every rule must match"):
        load_model(tmp_path, compressed=True, rules={"layer.0": "leave"})
