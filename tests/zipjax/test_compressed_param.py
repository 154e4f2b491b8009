"""`CompressedParam`: no array, and it says so wherever it is taken for one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zipjax
from tests.support.equal import assert_same_bits
from zipjax import ArgumentError
from zipjax.nn import (
    CompressedLinear,
    CompressedParam,
    decode_param,
    decode_pieces,
    encode_pieces,
    set_compressed,
)

ONES = np.ones((2, 128), np.float32)


@pytest.fixture
def layer():
    layer = nnx.Linear(128, 128, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    zipjax.compress_model(layer)
    return layer


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p[...],
        lambda p: p[0],
        lambda p: p + 1,
        lambda p: 1 + p,
        lambda p: -p,
        lambda p: ONES @ p,
        lambda p: jnp.asarray(ONES) @ p,
        lambda p: jnp.sum(p),
        lambda p: jnp.asarray(p),
        lambda p: np.asarray(p),
        lambda p: len(p),
        lambda p: list(p),
        lambda p: bool(p),
        lambda p: p.__setitem__(..., 0),
        lambda p: p.set_value(jnp.ones(3)),
        lambda p: p < 1,
    ],
)
def test_use_as_an_array_is_refused(layer, use):
    before = layer(ONES)
    with pytest.raises(ArgumentError, match=r"is no array; got .*call zipjax\.nn\.decode_param"):
        use(layer.kernel)
    assert_same_bits(layer(ONES), before)


@pytest.mark.parametrize("name", ["T", "astype", "at", "sum", "reshape"])
def test_methods_of_arrays_are_not_there(layer, name):
    assert not hasattr(layer.kernel, name)
    with pytest.raises(AttributeError, match=r"is no array; .*call zipjax\.nn\.decode_param"):
        getattr(layer.kernel, name)


def test_it_answers_for_the_array_that_it_stands_for(layer):
    kernel = layer.kernel
    assert not isinstance(kernel, nnx.Param)
    assert (kernel.shape, kernel.ndim, kernel.size) == ((128, 128), 2, 128 * 128)
    assert kernel.dtype == jnp.bfloat16
    assert kernel.raw_nbytes == 2 * 128 * 128
    assert "bfloat16[128,128]" in repr(kernel)
    assert "CompressedParam" in repr(layer)
    assert "bfloat16[128,128]" in repr(jax.tree.map(jnp.shape, nnx.state(layer)))
    plain = nnx.Linear(128, 128, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    assert_same_bits(decode_param(kernel), plain.kernel[...])
    assert_same_bits(decode_param(plain.kernel), plain.kernel[...])


def test_there_is_no_gradient_with_respect_to_it(layer):
    """Not by accident either: default filters pass it by, and JAX refuses it by name."""

    def loss(layer):
        return layer(ONES).astype(jnp.float32).sum()

    assert set(nnx.grad(loss)(layer)) == {"bias"}
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs"):
        nnx.grad(loss, argnums=nnx.DiffState(0, CompressedParam))(layer)


@pytest.mark.parametrize(
    ("shape", "num_stacked", "cut"),
    [
        ((64, 256), 0, 1),
        ((64, 256), 0, 2),
        ((3, 64, 128), 1, 2),
        ((2, 3, 64, 128), 2, 1),
        ((7, 4000), 0, 2),
    ],
)
def test_pieces_are_the_array(shape, num_stacked, cut):
    rng = np.random.default_rng(1)
    array = (rng.standard_normal(shape) * 0.02).astype(jnp.bfloat16)
    # Pieces of their own kinds: one of another scale, one with a list of its own length.
    array.reshape(-1)[: array.size // 3] *= 8
    array.reshape(-1)[::977] = 0
    cuts = (*[1] * (len(shape) - num_stacked - 1), cut)
    tensor = encode_pieces(array, num_stacked=num_stacked, cuts=cuts)
    assert tensor is not None
    cut_dims = (len(cuts) - 1,) if cut > 1 else ()
    assert_same_bits(np.asarray(decode_pieces(tensor, cut_dims)), array)
    assert_same_bits(jax.jit(decode_pieces, static_argnums=1)(tensor, cut_dims), jnp.asarray(array))
    num_lead = num_stacked + len(cut_dims)
    first = jax.tree.map(lambda stream: stream[(0,) * num_lead], tensor)
    piece = array[(0,) * num_stacked][..., : shape[-1] // cut]
    assert_same_bits(decode_pieces(first), np.ascontiguousarray(piece))


def test_a_layer_is_made_from_tensors_without_its_plain_form():
    """As a loader does: the layer is abstract until its compressed matrix comes."""
    plain = nnx.Linear(128, 128, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    abstract = nnx.eval_shape(
        lambda: nnx.Linear(128, 128, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    )
    tensor = zipjax.compress(plain.kernel[...])
    set_compressed(abstract, {"kernel": tensor})
    abstract.bias = nnx.Param(plain.bias[...])
    assert type(abstract) is CompressedLinear
    assert_same_bits(abstract(ONES), plain(ONES))


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (lambda: nnx.Linear(64, 128, rngs=nnx.Rngs(0)), "kernel", r"must be float32\[64, 128\]"),
        (lambda: nnx.Linear(128, 128, rngs=nnx.Rngs(0)), "kernel", r"got bfloat16\[128, 128\]"),
        (lambda: nnx.Linear(128, 128, rngs=nnx.Rngs(0)), "weight", "must be a plain parameter"),
        (lambda: nnx.LayerNorm(128, rngs=nnx.Rngs(0)), "scale", "must be one of Linear, "),
    ],
)
def test_tensors_that_do_not_fit_are_refused(make, name, message):
    tensor = zipjax.compress(np.ones((128, 128), jnp.bfloat16))
    with pytest.raises(ArgumentError, match=message):
        set_compressed(make(), {name: tensor})
