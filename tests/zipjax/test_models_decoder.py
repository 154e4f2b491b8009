"""The decoder as a whole."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pallas_kernels import ArgumentError, UnsupportedError
from zipjax.models import DecoderConfig, MoEDecoder
from zipjax.nn import ExpertParam

SMALL = DecoderConfig(
    width=16,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    num_experts=4,
    expert_hidden=8,
)


@pytest.fixture(scope="module")
def model() -> MoEDecoder:
    return MoEDecoder(SMALL, rngs=nnx.Rngs(0))


def run(model: MoEDecoder, tokens):
    graphdef, params = nnx.split(model)
    return jax.jit(lambda params, tokens: nnx.merge(graphdef, params)(tokens))(params, tokens)


def draw_tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.int32)


def test_shapes_and_reports(model):
    logits, stats = run(model, draw_tokens(2, 9))
    assert logits.shape == (2, 9, 256)
    assert logits.dtype == jnp.float32
    assert stats.counts.shape == (3, 4)
    np.testing.assert_array_equal(stats.counts.sum(axis=1), [2 * 9 * 2] * 3)


def test_a_prediction_does_not_see_the_future(model):
    """On bits: what a position predicts is computed from the same values in the same order.

    Only the number of rounds may differ, and it changes no bit.
    """
    tokens = draw_tokens(1, 12)
    changed = tokens.copy()
    changed[:, 7:] = draw_tokens(1, 5, seed=1)
    before, _ = run(model, tokens)
    after, _ = run(model, changed)
    np.testing.assert_array_equal(before[:, :7], after[:, :7])
    assert (before[:, 7:] != after[:, 7:]).any(axis=-1).all()


def test_layers_are_drawn_independently(model):
    kernels = np.asarray(model.blocks.attention.query.kernel[...])
    assert kernels.shape == (3, 16, 16)
    assert not (kernels[0] == kernels[1]).any()


def test_the_loop_over_layers_is_the_blocks_one_after_another(model):
    tokens = draw_tokens(2, 6)
    got, _ = run(model, tokens)

    graphdef, params = nnx.split(model)
    want = jax.jit(lambda params: layer_by_layer(nnx.merge(graphdef, params), tokens))(params)
    # Fused otherwise, sums round otherwise, and what travels between experts is bfloat16.
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=2**-7)


def layer_by_layer(model: MoEDecoder, tokens):
    x = model.embed.embedding[...][tokens]
    graphdef, params = nnx.split(model.blocks)
    for layer in range(SMALL.num_layers):
        block = nnx.merge(graphdef, jax.tree.map(lambda leaf, layer=layer: leaf[layer], params))
        x = x + block.attention(block.attention_norm(x))
        mixed, _ = block.moe(block.moe_norm(x).reshape(-1, SMALL.width))
        x = x + mixed.reshape(x.shape)
    return model.norm(x) @ model.embed.embedding[...].T


def test_only_the_experts_are_expert_parameters(model):
    experts, shared = nnx.split_state(nnx.state(model), ExpertParam, ...)
    names = {path[-1] for path, _ in nnx.to_flat_state(experts)}
    assert names == {"gate", "up", "down"}
    assert len(nnx.to_flat_state(shared)) == 9


def test_products_may_be_in_bfloat16():
    """Parameters and logits stay float32; half of the bits of a product go, not more."""
    narrow = MoEDecoder(replace(SMALL, compute_dtype="bfloat16"), rngs=nnx.Rngs(0))
    wide = MoEDecoder(SMALL, rngs=nnx.Rngs(0))
    tokens = draw_tokens(2, 9)
    got, want = run(narrow, tokens)[0], run(wide, tokens)[0]
    assert got.dtype == jnp.float32
    assert 0 < np.median(np.abs(got - want)) < 0.05


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_layers": 0}, "num_layers must be positive; got 0"),
        ({"num_kv_heads": 3}, "num_kv_heads must divide num_heads=4; got 3"),
        ({"head_dim": 5}, "head_dim must be even; got 5"),
        ({"num_selected": 9}, "num_selected must be at most num_experts=8; got 9"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change, message):
    with pytest.raises(ArgumentError, match=message):
        DecoderConfig(**change)


def test_unknown_dtypes_are_refused():
    with pytest.raises(UnsupportedError, match="bfloat61"):
        DecoderConfig(wire_dtype="bfloat61")
