"""Whatever array is given, its bits come back: from memory, from a device, from a file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zipjax
from pallas_kernels import decode, encode
from tests.properties.arrays import arrays, coded_names, long_shapes
from zipjax import FormatError, UnsupportedError
from zipjax.files.names import check_names

EXPANSION_NBYTES_MAX = 4096


def examples(count: int) -> settings:
    """The same `count` examples in every run; files and compilation take what they take."""
    return settings(max_examples=count, deadline=None, derandomize=True)


def _same(got, want) -> bool:
    got = np.asarray(got)
    return (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())


@given(x=arrays())
@examples(400)
def test_decompress_undoes_compress(x):
    before = x.tobytes()
    tensor = zipjax.compress(x)
    assert (tensor.dtype, tensor.shape) == (x.dtype, x.shape)
    assert tensor.nbytes <= 1.01 * x.nbytes + EXPANSION_NBYTES_MAX
    assert _same(zipjax.decompress(tensor), x)
    assert x.tobytes() == before


@pytest.mark.slow
@given(x=arrays(names=coded_names, shapes=long_shapes))
@examples(25)
def test_every_backend_makes_the_same_streams_and_bits(x):
    on_host, compiled = encode(x, implementation="numpy"), encode(x, implementation="xla")
    assert on_host.codec == compiled.codec
    for name, stream in on_host.streams.items():
        assert _same(compiled.streams[name], stream), name
    if on_host.codec != "raw":
        assert _same(decode(on_host, implementation="numpy"), x)
        assert _same(decode(on_host, implementation="xla"), x)


@given(x=arrays(names=coded_names, shapes=long_shapes))
@examples(5)
def test_arrays_on_a_device_come_back_too(x):
    on_device = jnp.asarray(x)
    tensor = zipjax.compress(on_device)
    back = zipjax.decompress(tensor)
    assert isinstance(back, jax.Array) and _same(back, x)


@given(tree=st.dictionaries(st.text(max_size=8), arrays(), max_size=4))
@examples(100)
def test_load_undoes_save(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("property") / "a.zipj"
    try:
        check_names(tree)
    except FormatError:
        with pytest.raises(FormatError):
            zipjax.save(path, tree)
        assert not path.exists()
        return
    zipjax.save(path, tree)
    assert zipjax.verify(path).ok
    with zipjax.load(path) as tensors:
        assert list(tensors) == list(tree)
        for name, x in tree.items():
            assert _same(tensors[name], x)


@given(metadata=st.dictionaries(st.text(), st.text(), max_size=5))
@examples(50)
def test_metadata_comes_back(metadata, tmp_path_factory):
    path = tmp_path_factory.mktemp("property") / "a.zipj"
    zipjax.save(path, {}, metadata=metadata)
    assert zipjax.inspect(path).metadata == metadata


@given(x=arrays(names=st.sampled_from(["float32", "int16", "complex64", "float64"])))
@examples(50)
def test_foreign_byte_order_is_refused(x):
    with pytest.raises(UnsupportedError, match="astype"):
        zipjax.compress(x.astype(x.dtype.newbyteorder(">")))
