"""The documented layout of `.safetensors`: read tensor by tensor, and written back byte by byte.

The package `safetensors` gives NumPy no float8, so that its files are read here; the tests compare
both on what both can read. A file is

    u64 little-endian  n, size of the header
    n bytes            JSON: name -> {dtype, shape, data_offsets: [begin, end]}, and `__metadata__`
    the rest           the tensors' bytes, without holes, offsets from the end of the header
"""

import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from pallas_kernels import ArgumentError, FormatError, dtype_name
from zipjax.files.names import check_names
from zipjax.files.sizes import checked_nbytes, checked_shape
from zipjax.files.source import FileSource
from zipjax.files.strict_json import dump_json, parse_json
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import shown

HEADER_NBYTES_MAX = 100_000_000
_LENGTH = struct.Struct("<Q")
_WHAT = "the safetensors header"
_DEPTH_MAX = 3
_ALIGN_NBYTES = 8

_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "I16": np.dtype(np.int16),
    "U16": np.dtype(np.uint16),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32),
    "F32": np.dtype(np.float32),
    "C64": np.dtype(np.complex64),
    "F64": np.dtype(np.float64),
    "I64": np.dtype(np.int64),
    "U64": np.dtype(np.uint64),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor lies.

    Invariants:
        end - begin == prod(shape) * dtype.itemsize
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """A parsed header.

    Attributes:
        text: the JSON as it stands in the file, trailing spaces included.
        places: the tensors in the order of the JSON.
        metadata: `__metadata__`, empty where there is none.
    """

    text: str
    places: tuple[Place, ...]
    metadata: Mapping[str, str]


def open_safetensors(
    path: str | os.PathLike[str],
) -> tuple[SafetensorsHeader, list[TensorSource]]:
    """Read the header of a file and offer its tensors.

    Raises:
        FormatError: the file is damaged, truncated, or holds a dtype that NumPy cannot.
        OSError: the file cannot be read.
    """
    source = FileSource(path)
    if source.nbytes < _LENGTH.size:
        raise FormatError("a safetensors file must hold 8 bytes at least", got=source.nbytes)
    (nbytes,) = _LENGTH.unpack(source.read(0, _LENGTH.size).data)
    if nbytes > HEADER_NBYTES_MAX:
        raise FormatError(f"{_WHAT} may hold {HEADER_NBYTES_MAX} bytes", got=nbytes)
    start = _LENGTH.size + nbytes
    if start > source.nbytes:
        raise FormatError(
            f"{_WHAT} must end inside the file",
            got=f"{source.nbytes} bytes instead of {start} at least",
            fix="the file is truncated: copy it again",
        )
    header = parse_safetensors_header(
        source.read(_LENGTH.size, nbytes).tobytes(), data_nbytes=source.nbytes - start
    )
    return header, [_source(source, place, start) for place in header.places]


def parse_safetensors_header(data: bytes, *, data_nbytes: int | None) -> SafetensorsHeader:
    """Parse the JSON of a header.

    Args:
        data: the JSON.
        data_nbytes: bytes after the header, which the tensors must fill; None if unknown.

    Raises:
        FormatError: it contradicts itself or the file.
    """
    value = parse_json(data, what=_WHAT, depth_max=_DEPTH_MAX)
    metadata = value.pop("__metadata__", {})
    if type(metadata) is not dict or any(type(text) is not str for text in metadata.values()):
        raise FormatError("__metadata__ must be text by text", got=shown(metadata))
    check_names(value)
    places = tuple(_place(name, item) for name, item in value.items())
    _require_tiling(places, data_nbytes)
    return SafetensorsHeader(text=data.decode("utf-8"), places=places, metadata=metadata)


def new_safetensors_header(
    tensors: Mapping[str, tuple[np.dtype, tuple[int, ...]]], metadata: Mapping[str, str]
) -> SafetensorsHeader:
    """A header for tensors that did not come from such a file.

    Names keep their order; the data goes by falling element size, which aligns every tensor.

    Raises:
        ArgumentError: a dtype that safetensors cannot hold, or a tensor called `__metadata__`.
    """
    begin, places = 0, {}
    for name, (dtype, shape) in sorted(tensors.items(), key=lambda item: -item[1][0].itemsize):
        if dtype not in _NAMES:
            raise ArgumentError(
                "safetensors must have a name for every dtype",
                got=f"{dtype_name(dtype)} of {shown(name)}",
            )
        end = begin + math.prod(shape) * dtype.itemsize
        places[name] = Place(name, dtype, shape, begin, end)
        begin = end
    if "__metadata__" in places:
        raise ArgumentError("safetensors reserves the name '__metadata__'", fix="rename the tensor")
    value: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    for name in tensors:
        place = places[name]
        value[name] = {
            "dtype": _NAMES[place.dtype],
            "shape": list(place.shape),
            "data_offsets": [place.begin, place.end],
        }
    data = dump_json(value)
    data += b" " * (-len(data) % _ALIGN_NBYTES)
    return SafetensorsHeader(
        data.decode("utf-8"), tuple(places[name] for name in tensors), metadata
    )


def safetensors_prefix(header: SafetensorsHeader) -> bytes:
    """The bytes of a file up to its first tensor."""
    data = header.text.encode("utf-8")
    return _LENGTH.pack(len(data)) + data


def _source(source: FileSource, place: Place, start: int) -> TensorSource:
    def read() -> np.ndarray:
        data = source.read(start + place.begin, place.end - place.begin)
        return data.view(place.dtype).reshape(place.shape)

    def read_parts(part_elems: int) -> Iterator[np.ndarray]:
        step = part_elems * place.dtype.itemsize
        for begin in range(place.begin, place.end, step):
            data = source.read(start + begin, min(step, place.end - begin))
            yield data.view(place.dtype)

    return TensorSource(
        name=place.name, dtype=place.dtype, shape=place.shape, read=read, read_parts=read_parts
    )


def _place(name: str, item: Any) -> Place:
    if type(item) is not dict or set(item) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(
            f"tensor {shown(name)} must have dtype, shape and data_offsets", got=shown(item)
        )
    if type(item["dtype"]) is not str or item["dtype"] not in _DTYPES:
        raise FormatError(
            f"the dtype of {shown(name)} must be one of {', '.join(_DTYPES)}",
            got=shown(item["dtype"]),
        )
    dtype, shape = _DTYPES[item["dtype"]], checked_shape(item["shape"], shown(name))
    offsets = checked_shape(item["data_offsets"], f"data_offsets of {shown(name)}")
    nbytes = checked_nbytes(dtype, shape, shown(name))
    if len(offsets) != 2 or offsets[1] - offsets[0] != nbytes:
        raise FormatError(f"{shown(name)} must take {nbytes} bytes", got=f"offsets {offsets}")
    return Place(name, dtype, shape, *offsets)


def _require_tiling(places: tuple[Place, ...], data_nbytes: int | None) -> None:
    """Every byte belongs to one tensor, so that nothing hides between them."""
    end = 0
    for place in sorted(places, key=lambda place: (place.begin, place.end)):
        if place.begin != end:
            raise FormatError(
                f"{shown(place.name)} must start where the tensor before it ends, at {end}",
                got=place.begin,
            )
        end = place.end
    if data_nbytes is not None and end != data_nbytes:
        raise FormatError(
            f"the tensors must fill the file: {end} bytes after the header",
            got=f"{data_nbytes} bytes",
            fix="the file is truncated: copy it again" if data_nbytes < end else "",
        )
