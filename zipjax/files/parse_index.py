"""Turn the stored bytes of an index into an `Index`, refusing all that is not exactly right."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pallas_kernels import FormatError, UnsupportedError, dtype_from_name, stream_specs
from zipjax.files.index import Index, Origin, StreamEntry, TensorEntry
from zipjax.files.names import check_names
from zipjax.files.sizes import checked_count, checked_nbytes, checked_shape
from zipjax.files.spec import HEADER_NBYTES, METADATA_ENTRIES_MAX
from zipjax.files.strict_json import parse_json
from zipjax.files.wording import did_you_mean, shown

_TENSOR_KEYS = ("name", "dtype", "shape", "codec", "layout", "xxh3_128", "streams")
_STREAM_KEYS = ("name", "dtype", "shape", "offset", "nbytes", "xxh3_64")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ORIGIN_KINDS = ("safetensors",)


def parse_index(data: bytes, *, index_offset: int) -> Index:
    """Read an index.

    Args:
        data: the stored bytes, already compared with their checksum.
        index_offset: where the index starts, which is where the last chunk must end.

    Raises:
        FormatError: whatever cannot be meant, named; no array is allocated on the way.
    """
    value = parse_json(data, what="the index")
    optional = ("origin",) if "origin" in value else ()
    _require_keys(value, ("metadata", "tensors", *optional), "the index")
    tensors = _list(value["tensors"], "tensors")
    names = [_text(_dict(t, "a tensor").get("name"), "a tensor's name") for t in tensors]
    check_names(names)
    stored_names: dict[str, str] = {}
    entries: dict[str, TensorEntry] = {}
    end = HEADER_NBYTES
    for name, tensor in zip(names, tensors, strict=True):
        if "same_as" in tensor:
            stored_names[name] = _parse_tie(tensor, name, entries)
            continue
        entries[name] = _parse_tensor(tensor, name, start=end)
        stored_names[name] = name
        end = entries[name].streams[-1].end
    if end != index_offset:
        raise FormatError(
            f"the chunks must fill the file up to the index at {index_offset}", got=f"end at {end}"
        )
    return Index(
        stored_names=stored_names,
        entries=entries,
        metadata=_parse_metadata(value["metadata"]),
        origin=_parse_origin(value["origin"]) if optional else None,
    )


def _parse_tie(tensor: dict, name: str, entries: Mapping[str, TensorEntry]) -> str:
    _require_keys(tensor, ("name", "same_as"), f"tied tensor {shown(name)}")
    stored = _text(tensor["same_as"], f"same_as of {shown(name)}")
    if stored not in entries:
        raise FormatError(
            f"{shown(name)} must be the same as a tensor stored before it", got=shown(stored)
        )
    return stored


def _parse_tensor(tensor: dict, name: str, *, start: int) -> TensorEntry:
    where = f"tensor {shown(name)}"
    _require_keys(tensor, _TENSOR_KEYS, where)
    codec, layout = _text(tensor["codec"], "codec"), _text(tensor["layout"], "layout")
    dtype, shape = _dtype(tensor["dtype"], where), checked_shape(tensor["shape"], where)
    checked_nbytes(dtype, shape, where)
    try:
        specs = stream_specs(codec, layout, dtype, shape)
    except UnsupportedError as error:
        raise FormatError(f"{where}: {error.what}", got=shown(error.got), fix=error.fix) from None
    streams = []
    for item in _list(tensor["streams"], f"streams of {where}"):
        streams.append(_parse_stream(item, where, start=start))
        start = streams[-1].end
    _require_streams(streams, specs, where)
    return TensorEntry(
        name=name,
        dtype=dtype,
        shape=shape,
        codec=codec,
        layout=layout,
        digest=_hex(tensor["xxh3_128"], 32, where),
        streams=tuple(streams),
    )


def _parse_stream(item: Any, where: str, *, start: int) -> StreamEntry:
    stream = _dict(item, f"a stream of {where}")
    _require_keys(stream, _STREAM_KEYS, f"a stream of {where}")
    name = _text(stream["name"], f"a stream's name of {where}")
    where = f"stream {shown(name)} of {where}"
    dtype, shape = _dtype(stream["dtype"], where), checked_shape(stream["shape"], where)
    nbytes, offset = checked_count(stream["nbytes"], where), checked_count(stream["offset"], where)
    want_nbytes = checked_nbytes(dtype, shape, where)
    if nbytes != want_nbytes:
        raise FormatError(f"{where}: nbytes must be {want_nbytes}", got=nbytes)
    if offset != start:
        raise FormatError(
            f"{where} must start where the chunk before it ends, at {start}", got=f"offset {offset}"
        )
    return StreamEntry(
        name=name,
        dtype=dtype,
        shape=shape,
        offset=offset,
        nbytes=nbytes,
        checksum=_hex(stream["xxh3_64"], 16, where),
    )


def _require_streams(streams: list[StreamEntry], specs: Mapping, where: str) -> None:
    """The streams are those of the codec, in its order; sizes the data decides are left open."""
    names = [stream.name for stream in streams]
    if names != list(specs):
        raise FormatError(f"{where} must have the streams {list(specs)}", got=shown(names))
    for stream in streams:
        dtype, sizes = specs[stream.name]
        same_shape = len(sizes) == len(stream.shape) and all(
            want is None or want == got for want, got in zip(sizes, stream.shape, strict=True)
        )
        if stream.dtype != dtype or not same_shape:
            raise FormatError(
                f"stream {stream.name} of {where} must be {dtype}{list(sizes)}",
                got=f"{stream.dtype}{list(stream.shape)}",
            )


def _parse_metadata(value: Any) -> dict[str, str]:
    metadata = _dict(value, "metadata")
    if len(metadata) > METADATA_ENTRIES_MAX:
        raise FormatError(f"metadata may have {METADATA_ENTRIES_MAX} entries", got=len(metadata))
    return {_text(key, "a key of metadata"): _text(metadata[key], "metadata") for key in metadata}


def _parse_origin(value: Any) -> Origin:
    origin = _dict(value, "origin")
    _require_keys(origin, ("kind", "header"), "origin")
    kind = _text(origin["kind"], "origin's kind")
    if kind not in _ORIGIN_KINDS:
        raise FormatError(f"origin's kind must be one of {_ORIGIN_KINDS}", got=shown(kind))
    return Origin(kind=kind, header=_text(origin["header"], "origin's header"))


def _require_keys(value: dict, keys: tuple[str, ...], where: str) -> None:
    for key in value:
        if key not in keys:
            raise FormatError(
                f"{where} has a field that this version does not know",
                got=shown(key),
                fix=did_you_mean(key, keys) or "read it with a newer zipjax",
            )
    for key in keys:
        if key not in value:
            raise FormatError(f"{where} must have the field {key!r}", got=shown(list(value)))


def _dict(value: Any, where: str) -> dict:
    if type(value) is not dict:
        raise FormatError(f"{where} must be an object", got=shown(value))
    return value


def _list(value: Any, where: str) -> list:
    if type(value) is not list:
        raise FormatError(f"{where} must be a list", got=shown(value))
    return value


def _text(value: Any, where: str) -> str:
    # JSON can spell half a surrogate pair, which is no character and cannot be written again.
    if type(value) is not str or _SURROGATE.search(value):
        raise FormatError(f"{where} must be text", got=shown(value))
    return value


def _hex(value: Any, num_digits: int, where: str) -> str:
    if type(value) is not str or not re.fullmatch(f"[0-9a-f]{{{num_digits}}}", value):
        raise FormatError(
            f"{where}: a checksum must be {num_digits} hexadecimal digits", got=shown(value)
        )
    return value


def _dtype(value: Any, where: str) -> np.dtype:
    try:
        return dtype_from_name(_text(value, f"dtype of {where}"))
    except UnsupportedError as error:
        raise FormatError(f"{where}: {error.what}", got=shown(value), fix=error.fix) from None
