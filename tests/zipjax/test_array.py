"""`compress` and `decompress` of arrays and pytrees."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import zipjax
from zipjax import ArgumentError, CompressedTensor, UnsupportedError


def _weights(num_elems: int) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.02, num_elems).astype(np.float32)


def test_numpy_in_gives_numpy_out_with_the_same_bits():
    x = _weights(1 << 16)
    tensor = zipjax.compress(x)
    assert tensor.nbytes < 0.9 * x.nbytes
    assert all(isinstance(stream, np.ndarray) for stream in tensor.streams.values())
    back = zipjax.decompress(tensor)
    assert isinstance(back, np.ndarray)
    assert np.array_equal(back.view(np.uint32), x.view(np.uint32))


def test_jax_in_gives_jax_out_with_the_same_bits():
    x = jnp.asarray(_weights(1 << 14).astype(ml_dtypes.bfloat16))
    tensor = zipjax.compress(x)
    assert all(isinstance(stream, jax.Array) for stream in tensor.streams.values())
    back = zipjax.decompress(tensor)
    assert isinstance(back, jax.Array)
    assert np.asarray(back).tobytes() == np.asarray(x).tobytes()


def test_trees_keep_their_structure():
    tree = {"a": [np.arange(3), (jnp.ones(2), None)], "b": np.float32(1.5)}
    compressed = zipjax.compress(tree)
    leaves = jax.tree.leaves(compressed, is_leaf=lambda x: isinstance(x, CompressedTensor))
    assert [type(leaf) for leaf in leaves] == [CompressedTensor] * 3
    back = zipjax.decompress(compressed)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for got, want in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def test_what_is_compressed_or_plain_already_stays_as_it_is():
    tensor, plain = zipjax.compress(np.arange(5)), np.arange(4)
    assert zipjax.compress({"t": tensor})["t"] is tensor
    assert zipjax.decompress({"x": plain})["x"] is plain


def test_inputs_are_not_modified():
    x = _weights(5000)[::2]
    before = x.tobytes()
    x.setflags(write=False)
    zipjax.decompress(zipjax.compress({"x": x}))
    assert x.tobytes() == before


@pytest.mark.parametrize("value", [1.5, 3, "text", True, object()])
def test_a_leaf_that_is_no_array_is_refused_with_its_place(value):
    with pytest.raises(ArgumentError) as error:
        zipjax.compress({"a": [np.arange(2), value]})
    message = str(error.value)
    assert "leaves must be NumPy or JAX arrays" in message
    assert type(value).__name__ in message and "at ['a'][1]" in message


def test_random_keys_are_refused_with_the_way_out():
    with pytest.raises(ArgumentError, match="key_data"):
        zipjax.compress(jax.random.key(0))


@pytest.mark.parametrize("dtype", [">f4", "O", "U3", "S2", "M8[s]", "f4,i4"])
def test_dtypes_that_are_no_native_numbers_are_refused(dtype):
    with pytest.raises(UnsupportedError, match="native number type"):
        zipjax.compress(np.zeros(3, dtype))


def test_big_endian_says_how_to_convert():
    with pytest.raises(UnsupportedError, match="astype"):
        zipjax.compress(np.zeros(3, ">f4"))


def test_traced_arrays_are_refused():
    with pytest.raises(ArgumentError, match="traced"):
        jax.jit(zipjax.compress)(jnp.ones(3))
