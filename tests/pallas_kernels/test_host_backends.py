"""The `numpy` backends of encode and decode against the oracle: the same streams, the same bits."""

import dataclasses

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from pallas_kernels import CompressedTensor, UnsupportedError, decode, encode, encode_static
from pallas_kernels.codecs import triple_bitmap

DTYPES = [
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(np.float16),
    np.dtype(np.float32),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
]
# Pieces are 64 tiles of 4096: below, at and above their edges, and one whose window is sampled.
SIZES = [4096 * 16, 4096 * 64, 4096 * 64 + 1, 4096 * 130 - 3, (1 << 22) + 5]


def _weights(dtype: np.dtype, num_elems: int, wild_every: int) -> np.ndarray:
    """Gaussian values, every `wild_every`-th replaced by random bits: NaNs, subnormals, all."""
    rng = np.random.default_rng(num_elems)
    with np.errstate(over="ignore", invalid="ignore"):
        x = rng.normal(0, 0.02, num_elems).astype(np.float32).astype(dtype)
    bits = x.view(f"u{dtype.itemsize}")
    wild = bits[::wild_every]
    wild[:] = rng.integers(0, 1 << 8 * dtype.itemsize, wild.size, np.uint64).astype(bits.dtype)
    return x


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_elems", SIZES)
def test_streams_are_those_of_the_oracle_and_decode_to_the_bits(dtype, num_elems):
    x = _weights(dtype, num_elems, wild_every=97)
    tensor = encode(x, implementation="numpy")
    assert tensor.codec == "triple_bitmap"
    want = triple_bitmap.encode(x)
    assert set(tensor.streams) == set(want)
    for name, stream in want.items():
        got = tensor.streams[name]
        assert (got.dtype, got.shape) == (stream.dtype, stream.shape), name
        assert np.array_equal(got, stream), name
    back = decode(tensor, implementation="numpy")
    assert (back.dtype, back.shape) == (x.dtype, x.shape)
    assert back.tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_streams_no_encoder_writes_decode_to_the_bits_of_the_oracle(dtype):
    """Codes under patches, exponents that carry into the sign: all backends agree."""
    rng = np.random.default_rng(0)
    tensor = encode(_weights(dtype, 4096 * 20, wild_every=97))
    streams = dict(tensor.streams)
    streams["codes"] = rng.integers(0, 1 << 16, streams["codes"].shape, np.uint16)
    exponents = streams["exponents"].copy()
    exponents[1:] = rng.permutation(exponents[1:])
    streams["exponents"] = exponents
    tensor = CompressedTensor.from_streams(
        codec=tensor.codec,
        layout=tensor.layout,
        dtype=tensor.dtype,
        shape=tensor.shape,
        streams=streams,
    )
    want = triple_bitmap.decode(streams, tensor.dtype, tensor.shape)
    assert decode(tensor, implementation="numpy").tobytes() == want.tobytes()
    assert np.asarray(decode(tensor, implementation="xla")).tobytes() == want.tobytes()


def test_what_would_grow_is_given_up_before_its_list_is_made():
    noise = np.random.default_rng(0).integers(0, 1 << 32, 4096 * 100, np.uint32).view(np.float32)
    assert encode(noise, implementation="numpy").codec == "raw"


def test_arrays_on_a_device_are_refused_so_that_dispatch_goes_on():
    x = jnp.asarray(_weights(DTYPES[0], 4096 * 16, wild_every=97))
    with pytest.raises(UnsupportedError, match="host memory"):
        encode(x, implementation="numpy")
    tensor = encode(x)
    with pytest.raises(UnsupportedError, match="host memory"):
        decode(tensor, implementation="numpy")


def test_nothing_is_written_but_the_result():
    x = _weights(DTYPES[0], 4096 * 16, wild_every=97)
    x.setflags(write=False)
    tensor = encode(x)
    for stream in tensor.streams.values():
        stream.setflags(write=False)
    back = decode(dataclasses.replace(tensor))
    assert back.flags.writeable and not np.shares_memory(back, x)


def test_lists_with_room_to_spare_are_decoded_on_the_host_too():
    """As `encode_static` makes them, and as models hold them."""
    x = (np.random.default_rng(0).standard_normal(9000) * 0.02).astype(ml_dtypes.bfloat16)
    x[:40] = (np.arange(40) * 777).astype(np.uint16).view(ml_dtypes.bfloat16)
    tensor, overflow = encode_static(jnp.asarray(x), patch_capacity=600)
    assert not overflow
    on_host = jax.tree.map(np.asarray, tensor)
    np.testing.assert_array_equal(decode(on_host).view(np.uint16), x.view(np.uint16))
