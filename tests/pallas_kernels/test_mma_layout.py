"""Layouts mma16x256 and mma256x16: the oracle, the encoder, the decoder, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import (
    H200,
    CompressedTensor,
    FormatError,
    UnsupportedError,
    assume,
    decode,
    encode,
    relayout,
)
from pallas_kernels.codecs import triple_bitmap_mma
from pallas_kernels.format import (
    check_streams,
    float_spec,
    kept_mask,
    pack_pairs,
    pairs_of_positions,
    positions_of_tiles,
    secondary_pieces,
    tiles_of_positions,
    unpack_pairs,
    words_per_group,
)
from tests.pallas_kernels.mma_cases import PAIR_DTYPES, awkward, bits_of, every_pattern, gaussian

LAYOUTS = ("mma16x256", "mma256x16")
SHAPES = ((256, 256), (1, 1), (3, 70, 300), (300, 70), (1, 777), (777, 1), (2, 2, 130, 257))


@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
def test_every_kept_bit_of_a_group_has_one_place(dtype):
    spec = float_spec(dtype)
    kept = bin(kept_mask(spec) & 0xFFFF).count("1")
    assert kept == words_per_group(spec) == spec.mantissa_bits + 4
    used = np.zeros(words_per_group(spec), np.uint32) | kept_mask(spec)
    for pieces in secondary_pieces(spec):
        assert np.bitwise_or.reduce([p.mask for p in pieces]) == kept_mask(spec)
        for piece in pieces:
            at = piece.mask << piece.left if piece.left > 0 else piece.mask >> -piece.left
            assert not used[piece.word] & at
            used[piece.word] |= at
    assert (used == 0xFFFFFFFF).all()


@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
def test_positions_are_where_the_format_says(dtype):
    tile = np.arange(4096, dtype=np.uint16).reshape(1, 16, 256)
    positions = positions_of_tiles(tile)
    np.testing.assert_array_equal(tiles_of_positions(positions), tile)
    t, lane, half = np.meshgrid(np.arange(64), np.arange(32), np.arange(2), indexing="ij")
    g, i, r, q = t // 16, t % 16, lane // 4, lane % 4
    row = r + 8 * (i % 2)
    depth = 64 * g + 16 * (i // 4) + 8 * (i // 2 % 2) + 2 * q + half
    position = 512 * (t // 8) + 16 * lane + 2 * (t % 8) + half
    np.testing.assert_array_equal(positions[0, position], tile[0, row, depth])
    spec = float_spec(dtype)
    pairs = pairs_of_positions(positions) & np.uint32(kept_mask(spec))
    np.testing.assert_array_equal(unpack_pairs(pack_pairs(pairs, spec), spec), pairs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_oracle_gives_back_every_bit(shape, dtype, layout):
    for x in (gaussian(shape, dtype), awkward(shape, dtype), np.zeros(shape, dtype)):
        streams = triple_bitmap_mma.encode(x, layout)
        check_streams("triple_bitmap", layout, dtype, shape, streams)
        y = triple_bitmap_mma.decode(streams, dtype, shape, layout)
        np.testing.assert_array_equal(bits_of(y), bits_of(x))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
def test_encode_writes_the_oracles_streams(dtype, layout):
    cases = (
        gaussian((250, 500), dtype),
        awkward((512, 512), dtype),
        gaussian((3, 240, 250), dtype),
    )
    for x in cases:
        for array in (x, jnp.asarray(x))[: 1 if layout == LAYOUTS[0] else 2]:
            tensor = encode(array, layout=layout)
            assert tensor.layout == layout
            want = triple_bitmap_mma.encode(x, layout)
            for name, stream in want.items():
                np.testing.assert_array_equal(np.asarray(tensor.streams[name]), stream, name)
            assert isinstance(tensor.streams["words"], np.ndarray) == isinstance(array, np.ndarray)
            np.testing.assert_array_equal(bits_of(decode(tensor)), bits_of(x))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", PAIR_DTYPES, ids=str)
def test_xla_decodes_every_pattern(dtype, layout):
    x = every_pattern(dtype)
    streams = jax.tree.map(jnp.asarray, triple_bitmap_mma.encode(x, layout))
    tensor = CompressedTensor("triple_bitmap", layout, dtype, x.shape, streams)
    np.testing.assert_array_equal(bits_of(jax.jit(decode)(tensor)), bits_of(x))


def test_relayout_there_and_back():
    x = jnp.asarray(awkward((256, 500), PAIR_DTYPES[0]))
    tensor = encode(x)
    there = relayout(tensor, "mma256x16")
    assert there.layout == "mma256x16" and relayout(there, "mma256x16") is there
    back = relayout(there, "rows16")
    for name, stream in back.streams.items():
        want = np.asarray(tensor.streams[name])
        np.testing.assert_array_equal(np.asarray(stream)[: want.shape[0]], want, name)


def test_an_assumed_gpu_encodes_nothing():
    x = gaussian((256, 500), PAIR_DTYPES[0])
    with assume(H200):
        tensor = encode(jnp.asarray(x), layout="mma16x256")
    np.testing.assert_array_equal(bits_of(decode(tensor)), bits_of(x))


def test_what_would_grow_is_raw():
    noise = np.random.default_rng(0).integers(0, 1 << 16, (64, 64)).astype(np.uint16)
    tensor = encode(noise.view(PAIR_DTYPES[0]), layout="mma16x256")
    assert tensor.codec == "raw" and relayout(tensor, "mma16x256") is tensor


def test_bits_per_element_of_gaussian_weights():
    """A large matrix takes what rows16 takes, but for its padded lists."""
    x = gaussian((1024, 2048), PAIR_DTYPES[0])
    assert encode(x, layout="mma16x256").bits_per_element < 11.22
    assert (
        encode(gaussian((1024, 2048), PAIR_DTYPES[1]), layout="mma16x256").bits_per_element < 14.23
    )


def test_only_matrices_of_16_bit_floats():
    for x in (np.ones((4, 4), np.float32), np.ones(4, PAIR_DTYPES[0]), np.ones((4, 4), np.int16)):
        with pytest.raises(UnsupportedError):
            encode(x, layout="mma16x256")
    with pytest.raises(UnsupportedError, match="must be one of rows16, mma16x256, mma256x16"):
        encode(np.ones((4, 4), PAIR_DTYPES[0]), layout="mma16")


def _streams():
    return triple_bitmap_mma.encode(awkward((128, 512), PAIR_DTYPES[0]), "mma16x256")


def _refused(streams, match):
    with pytest.raises(FormatError, match=match):
        check_streams("triple_bitmap", "mma16x256", PAIR_DTYPES[0], (128, 512), streams)


def test_stored_lists_that_cannot_be_are_refused():
    check_streams("triple_bitmap", "mma16x256", PAIR_DTYPES[0], (128, 512), _streams())
    streams = _streams()
    streams["exponents"][16] ^= 1
    _refused(streams, "last entry must be the base")
    streams = _streams()
    streams["tile_offsets"][3, 0] = streams["tile_offsets"][2, 0]
    _refused(streams, "by 1 to 64 patch words a tile")
    streams = _streams()
    streams["tile_offsets"][-1, 0] += 1
    _refused(streams, "must rise from 0")
    streams = _streams()
    streams["tile_offsets"][5, 1], streams["tile_offsets"][4, 1] = 0, 5
    _refused(streams, "must rise")
    streams = _streams()
    words = streams["patches"].view(np.uint16)
    words[0], words[2] = words[2], words[0]
    _refused(streams, "must rise inside a tile")
    streams = _streams()
    streams["patches"] = np.append(streams["patches"], np.uint32(0))
    _refused(streams, "zeros up to a multiple of 8")
    streams = _streams()
    streams["rare_entries"][0] |= 1 << 20
    _refused(streams, "rare")
