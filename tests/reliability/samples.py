"""Small valid containers to attack, and the forging of hostile ones whose checksums are right."""

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from pallas_kernels import CompressedTensor
from zipjax.files import save
from zipjax.files.checksum import checksum64, checksum_text
from zipjax.files.header import Header, pack_header, parse_header
from zipjax.files.spec import HEADER_NBYTES, padded_nbytes

FLOAT_DTYPES = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}


def weights(dtype: str, num_elems: int, *, seed: int = 0) -> np.ndarray:
    """Values like those of weights, with a few of every awkward kind."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.02, num_elems).astype(np.float32)
    x[:6] = [0.0, -0.0, 1e4, -1e-30, np.inf, np.nan]
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(FLOAT_DTYPES[dtype])


def container_bytes(tree: Any, **metadata: str) -> bytes:
    """The bytes of the container that `save` makes of `tree`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.zipj"
        save(path, tree, metadata=metadata)
        return path.read_bytes()


@cache
def raw_sample() -> bytes:
    """A container with raw tensors only: ints, a scalar, an empty one, a tied one; about 2 KiB."""
    tree = {
        "a": {"ids": np.arange(10), "scale": np.float64(0.5)},
        "b": np.zeros((0, 3), np.float32),
        "c": [np.ones(5, np.float16), np.ones(5, np.float16)],
    }
    return container_bytes(tree, origin="a test", empty="")


@cache
def coded_sample() -> bytes:
    """A container with one coded tensor and a tied twin; about 6 KiB."""
    w = weights("bfloat16", 2500)
    return container_bytes({"w": w, "twin": w.copy()})


def split_container(data: bytes) -> tuple[bytes, dict]:
    """The chunks and the index of a valid container."""
    header = parse_header(data[:HEADER_NBYTES], file_nbytes=len(data))
    index = json.loads(data[header.index_offset :])
    return data[HEADER_NBYTES : header.index_offset], index


def forge(chunks: bytes, index: dict | bytes) -> bytes:
    """A container with these chunks and this index, whatever it says, and right checksums."""
    text = index if isinstance(index, bytes) else dump(index)
    offset = HEADER_NBYTES + len(chunks)
    header = Header(
        file_nbytes=offset + len(text),
        index_offset=offset,
        index_nbytes=len(text),
        index_checksum=checksum64(text),
    )
    return pack_header(header) + chunks + text


def forge_index(data: bytes, change: Callable[[dict], Any]) -> bytes:
    """The container `data` with `change` made to its parsed index."""
    chunks, index = split_container(data)
    change(index)
    return forge(chunks, index)


def forge_streams(tensor: CompressedTensor, digest: str) -> bytes:
    """A container of one tensor with whatever streams it has, and checksums that are right."""
    chunks, streams = b"", []
    for name, array in tensor.streams.items():
        data = np.ascontiguousarray(array).tobytes()
        padded = data.ljust(padded_nbytes(len(data)), b"\0")
        streams.append(
            {
                "name": name,
                "dtype": str(array.dtype),
                "shape": list(array.shape),
                "offset": HEADER_NBYTES + len(chunks),
                "nbytes": len(data),
                "xxh3_64": checksum_text(padded),
            }
        )
        chunks += padded
    entry = {
        "name": "w",
        "dtype": str(tensor.dtype),
        "shape": list(tensor.shape),
        "codec": tensor.codec,
        "layout": tensor.layout,
        "xxh3_128": digest,
        "streams": streams,
    }
    return forge(chunks, {"metadata": {}, "tensors": [entry]})


def dump(value: Any) -> bytes:
    """JSON as a careless writer would write it: NaN and huge numbers go through."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
