"""`use_kernels`: which layers are moved, and what they compute then."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zipjax
from pallas_kernels import H200, ArgumentError, assume
from zipjax.nn import CompressedParam

BF16 = {"param_dtype": jnp.bfloat16}


class Net(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(256, 256, **BF16, rngs=rngs)
        self.up = nnx.Linear(256, 512, **BF16, rngs=rngs)
        self.down = nnx.Linear(512, 256, use_bias=False, **BF16, rngs=rngs)
        self.wide = nnx.Linear(256, 256, rngs=rngs)

    def __call__(self, tokens):
        x = self.down(jax.nn.silu(self.up(self.embed(tokens))))
        return self.wide(x)


def test_linear_layers_of_16_bits_are_moved_and_give_the_same_result_without_a_gpu():
    model, tokens = Net(nnx.Rngs(0)), jnp.arange(12)[None]
    model.up.bias[...] = jnp.linspace(-1, 1, 512, dtype=jnp.bfloat16)
    want = nnx.jit(Net.__call__)(model, tokens)
    kernels = {name: np.asarray(getattr(model, name).kernel[...]) for name in ("up", "down")}
    zipjax.compress_model(model)
    assert sorted(zipjax.use_kernels(model)) == ["down.kernel", "up.kernel"]
    assert model.up.kernel.get_value().layout == "mma256x16"
    got = nnx.jit(Net.__call__)(model, tokens)
    # The bias is added before the one rounding, not after another: within a unit in the last place.
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2.0**-6, atol=2.0**-8)

    zipjax.decompress_model(model)
    for name, kernel in kernels.items():
        back = getattr(model, name).kernel
        assert not isinstance(back, CompressedParam)
        np.testing.assert_array_equal(np.asarray(back[...]).view("u2"), kernel.view("u2"))


def test_another_dtype_of_computing_decodes():
    layer = nnx.Linear(256, 128, dtype=jnp.float32, **BF16, rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(1), (3, 256))
    want = jax.jit(lambda x: layer(x))(x)
    net = nnx.List([layer])
    zipjax.compress_model(net)
    assert zipjax.use_kernels(net) == ["0.kernel"]
    got = nnx.jit(lambda net, x: net[0](x))(net, x)
    np.testing.assert_array_equal(np.asarray(got).view("u4"), np.asarray(want).view("u4"))


def test_on_a_gpu_the_kernel_is_taken():
    """Traced for an H200: the program has the kernel, and no decoded matrix."""
    model = Net(nnx.Rngs(0))
    zipjax.compress_model(model)
    zipjax.use_kernels(model)
    with assume(H200):
        text = str(jax.make_jaxpr(lambda x: model.up(x))(jnp.ones((4, 256), jnp.bfloat16)))
    assert "mpmd_map" in text or "core_map" in text
    assert "bf16[256,512]" not in text


def test_only_models():
    with pytest.raises(ArgumentError, match="model must be"):
        zipjax.use_kernels(jnp.ones(3))
