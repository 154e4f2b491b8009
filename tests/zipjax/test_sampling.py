"""How tokens are chosen, against plain NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ArgumentError
from zipjax.models import GenerationDefaults
from zipjax.serve import Sampling
from zipjax.serve.sampling import choose_tokens, draw_from, filter_logits

VOCAB_SIZE = 50
SETTINGS = [
    Sampling(),
    Sampling(temperature=0.3, top_k=7),
    Sampling(top_k=1),
    Sampling(top_k=10_000),
    Sampling(temperature=1.7, top_p=0.8),
    Sampling(top_p=1e-6),
    Sampling(temperature=0.6, top_k=20, top_p=0.7),
]


def draw_logits(num_rows):
    """With equal ones, and some at minus infinity."""
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(num_rows, VOCAB_SIZE)) * 3).round(1).astype(np.float32)
    logits[:, 5] = -np.inf
    return logits


def allowed_by_definition(row, sampling):
    """The tokens that can be drawn, and their probabilities, one after the other."""
    scaled = row.astype(np.float64) / sampling.temperature
    ranked = sorted(range(row.size), key=lambda token: (-scaled[token], token))
    ranked = ranked[: sampling.top_k]
    weights = np.exp(scaled[ranked] - scaled[ranked].max())
    kept, before = {}, 0.0
    for token, share in zip(ranked, weights / weights.sum(), strict=True):
        if share > 0 and (before < sampling.top_p or sampling.top_p == 1):
            kept[token] = share
        before += share
    return {token: share / sum(kept.values()) for token, share in kept.items()}


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_filters_keep_what_the_definition_keeps(sampling):
    logits = draw_logits(20)
    draw = draw_from(sampling)
    assert draw is not None
    filtered = np.asarray(filter_logits(jnp.asarray(logits), draw))
    for row, got in zip(logits, filtered, strict=True):
        want = allowed_by_definition(row, sampling)
        assert set(np.flatnonzero(np.isfinite(got))) == set(want)
        shares = np.exp(got - got.max()) / np.exp(got - got.max()).sum()
        np.testing.assert_allclose(shares[list(want)], list(want.values()), rtol=1e-4)


def test_draws_have_their_probabilities():
    sampling, num_draws = Sampling(temperature=1.5, top_k=6, top_p=0.95, seed=3), 20_000
    row = draw_logits(1)[0]
    logits = jnp.broadcast_to(jnp.asarray(row)[None], (num_draws, VOCAB_SIZE))
    tokens = np.asarray(choose_tokens(logits, jnp.arange(num_draws), draw_from(sampling)))
    want = allowed_by_definition(row, sampling)
    assert set(tokens) == set(want)
    for token, share in want.items():
        deviation = (share * (1 - share) / num_draws) ** 0.5
        assert abs((tokens == token).mean() - share) < 4 * deviation


def test_the_likeliest_is_the_first_of_equals():
    logits = jnp.asarray([[1.0, 3.0, 3.0], [2.0, 2.0, 1.0]])
    for sampling in (None, Sampling(top_k=1)):
        tokens = choose_tokens(logits, jnp.zeros(2, jnp.int32), draw_from(sampling))
        np.testing.assert_array_equal(tokens, [1, 0])


@pytest.mark.parametrize("sampling", [None, Sampling(top_p=0.5)])
def test_no_token_comes_from_what_is_no_number(sampling):
    logits = jnp.asarray([[1.0, jnp.nan], [1.0, -jnp.inf]])
    tokens = choose_tokens(logits, jnp.zeros(2, jnp.int32), draw_from(sampling))
    np.testing.assert_array_equal(tokens, [-1, 0])


def test_the_makers_wishes():
    assert Sampling.from_defaults(GenerationDefaults(temperature=0.5)) is None
    wish = GenerationDefaults(sampled=True, temperature=0.5, top_k=4, top_p=0.9)
    assert Sampling.from_defaults(wish, seed=2) == Sampling(
        temperature=0.5, top_k=4, top_p=0.9, seed=2
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"seed": -1},
        {"seed": 1 << 32},
    ],
)
def test_what_cannot_be_is_refused(wrong):
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be .*; got"):
        Sampling(**wrong)
