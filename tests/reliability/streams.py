"""Rows 1, 4 and 13 below the checksums: streams that lie, in containers whose checksums are right.

Nobody but the decoder stands between such a file and its reader. It may refuse, or decode to
something of the right dtype and shape; then the tensor's digest tells right from wrong.
"""

import dataclasses
import random
from collections.abc import Callable, Iterator

import numpy as np

from pallas_kernels import CompressedTensor, FormatError, decode, encode
from pallas_kernels.codecs import triple_bitmap
from tests.reliability.samples import FLOAT_DTYPES, forge_streams, weights
from tests.reliability.tally import Tally, read_contents
from zipjax.array import decompress
from zipjax.files.checksum import tensor_bytes, tensor_digest

NUM_ELEMS = 12_000  # Three tiles, the last one partly used.
GUARD = 0xA5
_GUARD_NBYTES = 256


def random_streams(dtype: str, count: int, seed: int = 0) -> Tally:
    """Row 1 on the streams of a coded tensor, through `from_streams` and the oracle's decoder."""
    tally = Tally(1, f"random mutations of the streams of {dtype}")
    x, tensor = _sample(dtype)
    want = x.tobytes()
    for case in range(count):
        rng = random.Random(seed << 32 | case)
        mutant = _mutate(tensor, rng)
        tally.attempt(lambda mutant=mutant: _decodes_or_is_told(mutant, want), f"case {case}")
    return tally.done()


def guarded_streams(dtype: str, count: int, seed: int = 1) -> Tally:
    """Row 4: the same for every decoder there is, with guard bytes around every stream."""
    tally = Tally(4, f"guard bytes around the streams of {dtype}")
    x, tensor = _sample(dtype)
    for case in range(count):
        rng = random.Random(seed << 32 | case)
        mutant, require_intact = guard(_mutate(tensor, rng) if case else tensor)

        def attack(mutant=mutant, require_intact=require_intact) -> bool:
            try:
                checked = _checked(mutant)
                for decoder in (_oracle, decompress, _compiled):
                    _require_kind(np.asarray(decoder(checked)), x)
                return True
            finally:
                require_intact()

        tally.attempt(attack, f"case {case}")
    return tally.done()


def hostile_streams() -> Tally:
    """Row 13: pointers outside, lists that contradict each other, in every coded dtype."""
    tally = Tally(13, "patches, offsets and tables that point outside")
    for dtype in FLOAT_DTYPES:
        x, tensor = _sample(dtype)
        digest = tensor_digest(x)
        for what, streams in _lies(tensor):
            lying = dataclasses.replace(tensor, streams=streams)
            forged = forge_streams(lying, digest)
            # The whole reader refuses, or finds by the digest that the data is not the original.
            tally.attempt(lambda forged=forged, x=x: _only_exact(forged, x), f"{dtype}: {what}")
            # The device decoder alone, unprotected, stays in bounds whatever the lists say.
            tally.attempt(lambda lying=lying, x=x: _stays_in_bounds(lying, x), f"{dtype}: {what}")
    return tally.done()


def guard(tensor: CompressedTensor) -> tuple[CompressedTensor, Callable[[], None]]:
    """`tensor` with streams in the middle of guarded memory, and what checks that all is intact."""
    streams, buffers = {}, []
    for name, array in tensor.streams.items():
        data = tensor_bytes(np.asarray(array))
        buffer = np.full(data.size + 2 * _GUARD_NBYTES, GUARD, np.uint8)
        buffer[_GUARD_NBYTES : _GUARD_NBYTES + data.size] = data
        inner = buffer[_GUARD_NBYTES : _GUARD_NBYTES + data.size]
        streams[name] = inner.view(array.dtype).reshape(array.shape)
        buffers.append((name, buffer, buffer.copy()))

    def require_intact() -> None:
        for name, buffer, before in buffers:
            assert np.array_equal(buffer, before), f"stream {name} or its surroundings were written"

    return dataclasses.replace(tensor, streams=streams), require_intact


def _sample(dtype: str) -> tuple[np.ndarray, CompressedTensor]:
    x = weights(dtype, NUM_ELEMS)
    tensor = encode(x)
    assert tensor.codec == "triple_bitmap", "the sample must be coded"
    return x, tensor


def _mutate(tensor: CompressedTensor, rng: random.Random) -> CompressedTensor:
    """Change bits or bytes of one to three streams, or the length of a list."""
    streams = dict(tensor.streams)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(list(streams))
        array = np.array(streams[name])
        if rng.random() < 0.1 and array.ndim == 1:
            streams[name] = np.resize(array, max(0, array.size + rng.choice((-1, 1, 7))))
            continue
        data = array.reshape(-1).view(np.uint8)
        for _ in range(rng.choice((1, 1, 2, 16)) if data.size else 0):
            data[rng.randrange(data.size)] ^= rng.choice((1, 0x80, 0xFF, rng.randrange(256)))
        streams[name] = array
    return dataclasses.replace(tensor, streams=streams)


def _checked(tensor: CompressedTensor) -> CompressedTensor:
    return CompressedTensor.from_streams(
        codec=tensor.codec,
        layout=tensor.layout,
        dtype=tensor.dtype,
        shape=tensor.shape,
        streams=tensor.streams,
    )


def _oracle(tensor: CompressedTensor) -> np.ndarray:
    return triple_bitmap.decode(tensor.streams, tensor.dtype, tensor.shape)


def _compiled(tensor: CompressedTensor) -> np.ndarray:
    return np.asarray(decode(tensor, implementation="xla"))


def _decodes_or_is_told(tensor: CompressedTensor, want: bytes) -> bool:
    x = _oracle(_checked(tensor))
    if x.tobytes() != want:
        raise FormatError("the digest must fit")  # As `read_original` would find.
    return True


def _require_kind(got: np.ndarray, x: np.ndarray) -> None:
    assert (got.dtype, got.shape, got.nbytes) == (x.dtype, x.shape, x.nbytes)


def _only_exact(forged: bytes, x: np.ndarray) -> bool:
    return read_contents(forged, digests=True)["w"][2] == x.tobytes()


def _stays_in_bounds(tensor: CompressedTensor, x: np.ndarray) -> bool:
    tensor, require_intact = guard(tensor)
    try:
        _require_kind(_compiled(tensor), x)
        return True
    finally:
        require_intact()


def _lies(tensor: CompressedTensor) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Streams that no encoder writes."""
    streams = {name: np.asarray(array) for name, array in tensor.streams.items()}
    num_tiles, num_patches = streams["codes"].shape[0], streams["patches"].size
    offsets, patches = streams["patch_offsets"], streams["patches"]

    def lie(**changed: np.ndarray) -> dict[str, np.ndarray]:
        return streams | changed

    def at(array: np.ndarray, index: int, value: int) -> np.ndarray:
        result = array.copy()
        result[index] = value
        return result

    last = np.iinfo(np.uint32).max
    yield "offsets start after 0", lie(patch_offsets=at(offsets, 0, 1))
    yield "offsets end early", lie(patch_offsets=at(offsets, -1, num_patches - 1))
    yield "offsets end late", lie(patch_offsets=at(offsets, -1, num_patches + 1))
    yield "an offset far outside", lie(patch_offsets=at(offsets, 1, last))
    yield "all offsets far outside", lie(patch_offsets=np.full_like(offsets, last))
    yield "offsets fall", lie(patch_offsets=at(offsets, 1, offsets[2] + 1))
    yield "all offsets 0", lie(patch_offsets=np.zeros_like(offsets))
    yield "a patch twice", lie(patches=at(patches, 1, patches[0]))
    yield "patches reversed", lie(patches=patches[::-1].copy())
    yield "patches all at the end of a tile", lie(patches=np.full_like(patches, 0xFFFF))
    yield "every patch index", lie(patches=patches | np.uint16(15))
    yield "base at the top", lie(exponents=at(streams["exponents"], 0, 255))
    yield "table at the top", lie(exponents=np.full_like(streams["exponents"], 255))
    one = np.ones(1, np.uint32)
    yield "a rare tile outside", lie(rare_tiles=one * num_tiles, rare_entries=one)
    yield "a rare tile far outside", lie(rare_tiles=one * last, rare_entries=one)
    yield "a rare position outside", lie(rare_tiles=one * 0, rare_entries=one * (4096 << 8))
    yield "a rare exponent outside", lie(rare_tiles=one * 0, rare_entries=one * 255)
    yield "rare lists of two lengths", lie(rare_tiles=one, rare_entries=np.ones(2, np.uint32))
    yield (
        "a rare entry twice",
        lie(rare_tiles=np.ones(2, np.uint32), rare_entries=np.ones(2, np.uint32)),
    )
    for word in range(0, 1 << 16, 257):  # Every byte value in both halves.
        yield f"codes all {word:#06x}", lie(codes=np.full_like(streams["codes"], word))
    for byte in (0, 1, 0x7F, 0x80, 0xFF):
        yield f"remainder all {byte:#04x}", lie(remainder=np.full_like(streams["remainder"], byte))
