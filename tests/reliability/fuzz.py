"""Row 5: structure-aware fuzzing of everything that parses, checksums put right.

Not guided by coverage: the parsers are short Python, so that mutations that know their grammar
reach every branch, and a fuzzing engine would be a dependency for little. What the tests of the
single rows miss is looked for by recombining their ideas at random.
"""

import copy
import io
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.reliability.mutations import mutate
from tests.reliability.samples import coded_sample, dump, forge, raw_sample, split_container
from tests.reliability.tally import Tally, read_contents
from zipjax.array import decompress
from zipjax.files.tensor_file import open_tensors

_NUMBERS = (0, 1, -1, 2, 63, 64, 65, 4096, 1 << 31, 1 << 32, 1 << 62, 1 << 63, 1 << 64, 0.5, True)
_TEXTS = (
    "",
    "a",
    "raw",
    "bytes",
    "triple_bitmap",
    "float32",
    "bool",
    "\0",
    "..",
    "\u00e9",
    "x" * 2000,
)
_VALUES: tuple[Any, ...] = (*_NUMBERS, *_TEXTS, None, [], {}, [0], {"a": "b"}, float("nan"))


def fuzz_index(count: int, seed: int = 0) -> Tally:
    """Indexes whose values are replaced, removed, repeated and moved; then read in full."""
    tally = Tally(5, "structure-aware fuzzing of the index")
    samples = [split_container(raw_sample()), split_container(coded_sample())]
    for case in range(count):
        rng = random.Random(seed << 32 | case)
        chunks, index = rng.choice(samples)
        index = copy.deepcopy(index)
        for _ in range(rng.randint(1, 4)):
            _change_value(index, rng)
        data = forge(chunks, index)
        tally.attempt(lambda data=data: _read_whole(data), f"seed {seed} case {case}")
    return tally.done()


def fuzz_index_text(count: int, seed: int = 0) -> Tally:
    """Indexes whose bytes are mutated, in files whose checksums are right."""
    tally = Tally(5, "mutation of the index's bytes, checksums put right")
    chunks, index = split_container(raw_sample())
    text = dump(index)
    for case in range(count):
        data = forge(chunks, mutate(text, random.Random(seed << 32 | case)))
        tally.attempt(lambda data=data: _read_whole(data), f"seed {seed} case {case}")
    return tally.done()


def fuzz_safetensors(count: int, seed: int = 0) -> Tally:
    """`.safetensors` files with mutated headers and bytes."""
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    }

    def make(rng: random.Random) -> bytes:
        changed = copy.deepcopy(header)
        for _ in range(rng.randint(0, 2)):
            _change_value(changed, rng)
        text = dump(changed)
        text = mutate(text, rng) if rng.random() < 0.5 else text
        data = struct.pack("<Q", len(text)) + text + bytes(32)
        return mutate(data, rng) if rng.random() < 0.3 else data

    return _fuzz_file(".safetensors", make, count, seed)


def fuzz_npz(count: int, seed: int = 0) -> Tally:
    """`.npz` files with mutated members and bytes."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.arange(6, dtype=np.float32).reshape(2, 3))
    member = stream.getvalue()

    def make(rng: random.Random) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(
            stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        ) as z:
            z.writestr("a.npy", mutate(member, rng) if rng.random() < 0.7 else member)
            z.writestr(rng.choice(("b.npy", "b", "../b.npy", "/b.npy")), member)
        data = stream.getvalue()
        return mutate(data, rng) if rng.random() < 0.5 else data

    return _fuzz_file(".npz", make, count, seed)


def _fuzz_file(suffix: str, make: Callable[[random.Random], bytes], count: int, seed: int) -> Tally:
    tally = Tally(5, f"fuzzing of {suffix} files")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"fuzz{suffix}"
        for case in range(count):
            path.write_bytes(make(random.Random(seed << 32 | case)))
            tally.attempt(lambda: _open_whole(path), f"seed {seed} case {case}")
    return tally.done()


def _read_whole(data: bytes) -> bool:
    """Whatever can be read is of the size it says; these files may differ from the sample."""
    for dtype, shape, content in read_contents(data, digests=True).values():
        if dtype != "text":
            assert len(content) % max(1, int(np.prod(shape))) == 0
    return True


def _open_whole(path: Path) -> bool:
    try:
        for source in open_tensors(path).sources:
            x = np.asarray(decompress(source.read()))
            assert (x.dtype, x.shape) == (source.dtype, source.shape)
    except OSError as error:
        assert error.errno, f"{error} must come from the system"
    return True


def _change_value(value: Any, rng: random.Random) -> None:
    """Walk down to some object or list and change an entry of it."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], dict | list) and rng.random() < 0.8:
            value = value[key]
            continue
        _change_entry(value, key, rng)
        return


def _change_entry(value: Any, key: Any, rng: random.Random) -> None:
    match rng.randrange(5):
        case 0:
            del value[key]
        case 1 if isinstance(value, list):
            value.insert(rng.randrange(len(value) + 1), copy.deepcopy(value[key]))
        case 1:
            value[rng.choice(("same_as", "origin", "name", "extra"))] = copy.deepcopy(value[key])
        case 2 if type(value[key]) is int:
            value[key] += rng.choice((-64, -1, 1, 64, 4096))
        case 3 if isinstance(value, list):
            rng.shuffle(value)
        case _:
            value[key] = copy.deepcopy(rng.choice(_VALUES))
