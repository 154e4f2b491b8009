"""What a container holds, as plain data for people and machines."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from pallas_kernels import dtype_name
from zipjax.files.index import Index
from zipjax.files.spec import VERSION


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorSummary:
    """One tensor of a container.

    Attributes:
        name: its name.
        dtype: dtype of the elements.
        shape: its shape.
        codec: codec of its streams.
        layout: layout of its streams.
        raw_nbytes: bytes uncompressed.
        nbytes: bytes of its streams; 0 for a tied tensor.
        bits_per_element: 8 * nbytes over elements.
        digest: xxh3_128 of the uncompressed bytes.
        same_as: the tensor that it is tied to, or None.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    codec: str
    layout: str
    raw_nbytes: int
    nbytes: int
    bits_per_element: float
    digest: str
    same_as: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The attributes as JSON can hold them."""
        return {
            "name": self.name,
            "dtype": dtype_name(self.dtype),
            "shape": list(self.shape),
            "codec": self.codec,
            "layout": self.layout,
            "raw_nbytes": self.raw_nbytes,
            "nbytes": self.nbytes,
            "bits_per_element": round(self.bits_per_element, 4),
            "xxh3_128": self.digest,
            "same_as": self.same_as,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSummary:
    """A container.

    Attributes:
        path: where it lies.
        file_nbytes: size of the whole file.
        raw_nbytes: bytes of all tensors uncompressed, tied ones counted each time.
        tensors: in the order of the file.
        metadata: the user's own texts.
    """

    path: str
    file_nbytes: int
    raw_nbytes: int
    tensors: tuple[TensorSummary, ...]
    metadata: dict[str, str]

    @property
    def ratio(self) -> float:
        """File over uncompressed bytes; 1 where there are none."""
        return self.file_nbytes / self.raw_nbytes if self.raw_nbytes else 1.0

    def to_json(self) -> dict[str, Any]:
        """The attributes as JSON can hold them."""
        return {
            "path": self.path,
            "format_version": VERSION,
            "file_nbytes": self.file_nbytes,
            "raw_nbytes": self.raw_nbytes,
            "ratio": round(self.ratio, 6),
            "metadata": self.metadata,
            "tensors": [tensor.to_json() for tensor in self.tensors],
        }


def summarize(path: str | os.PathLike[str], index: Index, *, file_nbytes: int) -> FileSummary:
    """The summary of a container with this index."""
    return FileSummary(
        path=os.fspath(path),
        file_nbytes=file_nbytes,
        raw_nbytes=index.raw_nbytes,
        tensors=tuple(_summarize_tensor(name, index) for name in index.stored_names),
        metadata=dict(index.metadata),
    )


def _summarize_tensor(name: str, index: Index) -> TensorSummary:
    entry = index.entry(name)
    tied = entry.name != name
    return TensorSummary(
        name=name,
        dtype=entry.dtype,
        shape=entry.shape,
        codec=entry.codec,
        layout=entry.layout,
        raw_nbytes=entry.raw_nbytes,
        nbytes=0 if tied else entry.nbytes,
        bits_per_element=0.0 if tied else entry.bits_per_element,
        digest=entry.digest,
        same_as=entry.name if tied else None,
    )
