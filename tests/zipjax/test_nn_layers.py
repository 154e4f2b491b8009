"""Layers against plain NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pallas_kernels import ArgumentError
from parallel import moe
from zipjax.nn import ExpertParam, GroupedAttention, MoE, SwigluExperts, rotary
from zipjax.nn.attention import grouped_attention

# float32 sums of a few hundred terms of size 1: some 2**-24 each, and room for a softmax's exp.
TOLERANCE = {"rtol": 2**-16, "atol": 2**-18}


def draw(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def rotary_oracle(x: np.ndarray, theta: float) -> np.ndarray:
    """Rotate pairs as complex numbers."""
    length, _, dim = x.shape[-3:]
    half = dim // 2
    pairs = x[..., :half] + 1j * x[..., half:]
    angles = np.arange(length)[:, None] * theta ** (-2 * np.arange(half) / dim)
    turned = pairs * np.exp(1j * angles)[:, None, :]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def attention_oracle(query, key, value):
    """Loops over batch, head and position."""
    batch, length, num_heads, dim = query.shape
    out = np.zeros((batch, length, num_heads, value.shape[-1]))
    for b, h, t in np.ndindex(batch, num_heads, length):
        shared = h * key.shape[2] // num_heads
        scores = key[b, : t + 1, shared] @ query[b, t, h] / np.sqrt(dim)
        weights = np.exp(scores - scores.max())
        out[b, t, h] = weights / weights.sum() @ value[b, : t + 1, shared]
    return out


@pytest.mark.parametrize("shape", [(2, 7, 3, 8), (5, 1, 2), (1, 1, 1, 4)])
@pytest.mark.parametrize("theta", [10_000.0, 100.0])
def test_rotary_turns_pairs(shape, theta):
    x = draw(*shape)
    np.testing.assert_allclose(rotary(x, theta=theta), rotary_oracle(x, theta), **TOLERANCE)


def test_rotary_products_depend_on_the_distance_alone():
    query, key = draw(8), draw(8, seed=1)
    turned = np.asarray(rotary(jnp.broadcast_to(query, (9, 1, 8))))[:, 0]
    others = np.asarray(rotary(jnp.broadcast_to(key, (9, 1, 8))))[:, 0]
    np.testing.assert_allclose(turned[7] @ others[4], turned[3] @ others[0], **TOLERANCE)


def test_rotary_needs_pairs():
    with pytest.raises(ArgumentError, match="even head dimension; got 3"):
        rotary(draw(2, 1, 3))


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(4, 4), (4, 2), (6, 1)])
def test_attention_shares_key_heads(num_heads, num_kv_heads):
    query = draw(2, 9, num_heads, 6)
    key, value = draw(2, 9, num_kv_heads, 6, seed=1), draw(2, 9, num_kv_heads, 6, seed=2)
    got = grouped_attention(query, key, value)
    np.testing.assert_allclose(got, attention_oracle(query, key, value), **TOLERANCE)
    twin = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    np.testing.assert_allclose(got, twin, **TOLERANCE)


def test_attention_layer_is_projections_around_the_oracle():
    layer = GroupedAttention(12, num_heads=4, num_kv_heads=2, head_dim=6, rngs=nnx.Rngs(0))
    x = draw(2, 5, 12)
    weight = lambda linear: np.asarray(linear.kernel[...], np.float64)
    heads = lambda linear: (x @ weight(linear)).reshape(2, 5, -1, 6)
    query, key = (rotary_oracle(heads(part), 10_000.0) for part in (layer.query, layer.key))
    seen = attention_oracle(query, key, heads(layer.value))
    want = seen.reshape(2, 5, -1) @ weight(layer.out)
    np.testing.assert_allclose(layer(x), want, **TOLERANCE)


def test_attention_sees_the_past_only():
    layer = GroupedAttention(12, num_heads=4, num_kv_heads=2, head_dim=6, rngs=nnx.Rngs(0))
    x = draw(1, 8, 12)
    changed = x.copy()
    changed[:, 5:] = draw(1, 3, 12, seed=1)
    before, after = np.asarray(layer(x)), np.asarray(layer(changed))
    np.testing.assert_array_equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] != after[:, 5:]).any(axis=-1).all()


def test_key_heads_must_divide_query_heads():
    with pytest.raises(ArgumentError, match="must divide the 4 query heads; got 3"):
        GroupedAttention(12, num_heads=4, num_kv_heads=3, head_dim=6, rngs=nnx.Rngs(0))


def swiglu_oracle(rows, gate, up, down):
    gated = rows @ gate
    return (gated / (1 + np.exp(-gated)) * (rows @ up)) @ down


def test_experts_work_side_by_side():
    experts = SwigluExperts(3, 10, 14, rngs=nnx.Rngs(0))
    rows = draw(3, 6, 10)
    matrices = [np.asarray(p[...], np.float64) for p in (experts.gate, experts.up, experts.down)]
    want = np.stack([swiglu_oracle(rows[e], *(m[e] for m in matrices)) for e in range(3)])
    np.testing.assert_allclose(experts(rows), want, **TOLERANCE)


def test_experts_are_drawn_for_their_own_fan_in():
    """Each matrix by itself has variance 1 / rows, whatever the number of experts."""
    experts = SwigluExperts(4, 64, 96, rngs=nnx.Rngs(0))
    for param, rows in ((experts.gate, 64), (experts.up, 64), (experts.down, 96)):
        assert isinstance(param, ExpertParam)
        assert np.std(param[...]) == pytest.approx(rows**-0.5, rel=0.05)


def test_zero_rows_stay_zero():
    experts = SwigluExperts(2, 4, 6, rngs=nnx.Rngs(0))
    np.testing.assert_array_equal(experts(np.zeros((2, 3, 4), np.float32)), np.zeros((2, 3, 4)))


def test_moe_layer_mixes_the_chosen_experts():
    layer = MoE(8, 12, num_experts=4, num_selected=2, wire_dtype=jnp.float32, rngs=nnx.Rngs(0))
    x = draw(10, 8)

    values, stats = layer(x)

    routing = moe.route(layer.router(x), num_selected=2)
    chosen, weights = np.asarray(routing.expert_idx), np.asarray(routing.weights)
    params = (layer.experts.gate, layer.experts.up, layer.experts.down)
    matrices = [np.asarray(p[...], np.float64) for p in params]
    want = np.zeros((10, 8))
    for t, j in np.ndindex(10, 2):
        one = swiglu_oracle(x[t], *(m[chosen[t, j]] for m in matrices))
        want[t] += weights[t, j] * one
    np.testing.assert_allclose(values, want, **TOLERANCE)
    np.testing.assert_array_equal(stats.counts, np.bincount(chosen.reshape(-1), minlength=4))
    assert stats.num_rounds >= 1
