"""A Linen model gets in through Flax's bridge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx

import zipjax
from tests.support.equal import assert_same_bits
from tests.zipjax.compression_cases import apply
from zipjax import UnsupportedError
from zipjax.nn import CompressedToNNX

X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


class Inner(linen.Module):
    @linen.compact
    def __call__(self, x):
        return jax.nn.silu(linen.Dense(128, param_dtype=jnp.bfloat16)(x))


class Model(linen.Module):
    @linen.compact
    def __call__(self, x, flag=True):
        x = Inner()(linen.LayerNorm()(x))
        return linen.Dense(64, param_dtype=jnp.bfloat16)(x) if flag else x


class Mixed(nnx.Module):
    """A bridge beside a layer of NNX."""

    def __init__(self, rngs):
        self.old = nnx.bridge.ToNNX(Model(), rngs=rngs)
        self.new = nnx.Linear(64, 64, param_dtype=jnp.bfloat16, rngs=rngs)

    def __call__(self, x):
        return self.new(self.old(x))


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_linen_model_is_compressed_and_comes_back(is_whole):
    if is_whole:
        model = nnx.bridge.ToNNX(Model(), rngs=nnx.Rngs(0)).lazy_init(X)
    else:
        model = nnx.bridge.lazy_init(Mixed(nnx.Rngs(0)), X)
    want = apply(model, X)
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)  # the rest counts random numbers

    report = zipjax.compress_model(model)

    bridge = model if is_whole else model.old
    prefix = "" if is_whole else "old."
    assert type(bridge) is CompressedToNNX
    compressed = {row.path for row in report.rows if row.compressed and "new" not in row.path}
    assert compressed == {f"{prefix}Dense_0.kernel", f"{prefix}Inner_0.Dense_0.kernel"}
    assert_same_bits(apply(model, X), want)
    assert bridge(X, False).shape == (4, 128)
    with pytest.raises(UnsupportedError, match="changes no variables; got mutable="):
        bridge(X, mutable=["batch_stats"])

    abstract = nnx.eval_shape(lambda: nnx.merge(graphdef, params, rest))
    zipjax.set_structure(abstract, zipjax.structure_of(model))
    assert nnx.split(abstract)[0] == nnx.split(model)[0]

    zipjax.decompress_model(model)
    assert nnx.split(model)[0] == graphdef
    assert_same_bits(nnx.state(model, nnx.Param), params)
