"""The index of a container: what tensors it holds and where the bytes of each stream lie."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pallas_kernels import dtype_name
from zipjax.files.spec import padded_nbytes


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamEntry:
    """Where one stream of one tensor lies.

    Invariants:
        nbytes == prod(shape) * dtype.itemsize
        offset % 64 == 0
        checksum == xxh3_64(file[offset : offset + padded(nbytes)])
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    checksum: str

    @property
    def end(self) -> int:
        """Where the next chunk starts: the padding belongs to this one."""
        return self.offset + padded_nbytes(self.nbytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorEntry:
    """A tensor that is stored.

    Invariants:
        digest == xxh3_128(bytes of the original tensor in C order)
        streams are those of `stream_specs(codec, layout, dtype, shape)`, in its order
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    codec: str
    layout: str
    digest: str
    streams: tuple[StreamEntry, ...]

    @property
    def num_elems(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of the original tensor."""
        return self.num_elems * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the stored streams, without padding."""
        return sum(stream.nbytes for stream in self.streams)

    @property
    def bits_per_element(self) -> float:
        """Stored bits for each element; 0 for an empty tensor."""
        return 8 * self.nbytes / self.num_elems if self.num_elems else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What a file was made from, so that it can be made again byte by byte.

    Attributes:
        kind: "safetensors".
        header: the JSON text of the original file's header, padding included.
    """

    kind: str
    header: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Index:
    """All that a container says about its tensors.

    Attributes:
        stored_names: name of every tensor, in order -> name of the tensor that is stored for it:
            its own, or for tied tensors the first of them.
        entries: name of a stored tensor -> where it lies, in the order of the file.
        metadata: the user's own texts.
        origin: what the file was made from, where that is needed to make it again.
    """

    stored_names: Mapping[str, str]
    entries: Mapping[str, TensorEntry]
    metadata: Mapping[str, str] = field(default_factory=dict)
    origin: Origin | None = None

    def entry(self, name: str) -> TensorEntry:
        """The stored tensor that `name` stands for."""
        return self.entries[self.stored_names[name]]

    @property
    def raw_nbytes(self) -> int:
        """Bytes of all tensors, tied ones counted each time."""
        return sum(self.entry(name).raw_nbytes for name in self.stored_names)


def index_to_json(index: Index) -> dict:
    """The JSON object that is stored for `index`."""
    tensors = [
        _tensor_to_json(index.entries[name])
        if name == stored
        else {"name": name, "same_as": stored}
        for name, stored in index.stored_names.items()
    ]
    value: dict = {"metadata": dict(index.metadata), "tensors": tensors}
    if index.origin is not None:
        value["origin"] = {"kind": index.origin.kind, "header": index.origin.header}
    return value


def _tensor_to_json(entry: TensorEntry) -> dict:
    return {
        "name": entry.name,
        "dtype": dtype_name(entry.dtype),
        "shape": list(entry.shape),
        "codec": entry.codec,
        "layout": entry.layout,
        "xxh3_128": entry.digest,
        "streams": [_stream_to_json(stream) for stream in entry.streams],
    }


def _stream_to_json(stream: StreamEntry) -> dict:
    return {
        "name": stream.name,
        "dtype": dtype_name(stream.dtype),
        "shape": list(stream.shape),
        "offset": stream.offset,
        "nbytes": stream.nbytes,
        "xxh3_64": stream.checksum,
    }
