"""Write a container: chunks as they come, then the index, then the header that makes it valid."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

from pallas_kernels import ArgumentError, CompressedTensor, FormatError, stream_specs
from zipjax.files.atomic import AtomicFile
from zipjax.files.checksum import checksum64, checksum_text, tensor_bytes
from zipjax.files.disk import Disk
from zipjax.files.header import Header, pack_header
from zipjax.files.index import Index, Origin, StreamEntry, TensorEntry, index_to_json
from zipjax.files.names import check_names
from zipjax.files.spec import HEADER_NBYTES, INDEX_NBYTES_MAX, padded_nbytes
from zipjax.files.strict_json import dump_json
from zipjax.files.wording import shown


class ContainerWriter:
    """A container that grows tensor by tensor and appears on `commit`.

    Only the index is kept in memory. Leaving the block without `commit` leaves nothing behind.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        metadata: Mapping[str, str] | None = None,
        origin: Origin | None = None,
        disk: Disk | None = None,
    ):
        """Start a file beside `path`; raises `DiskError`."""
        self._metadata = dict(metadata or {})
        self._origin = origin
        self._stored_names: dict[str, str] = {}
        self._entries: dict[str, TensorEntry] = {}
        self._file = AtomicFile(path, disk=disk)
        try:
            # No magic yet: a reader refuses the file until it is complete.
            self._file.write(bytes(HEADER_NBYTES))
        except BaseException:
            self._file.__exit__(None, None, None)
            raise

    def __enter__(self) -> "ContainerWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, trace)

    @property
    def index(self) -> Index:
        """What was written so far."""
        return Index(
            stored_names=self._stored_names,
            entries=self._entries,
            metadata=self._metadata,
            origin=self._origin,
        )

    def expect(self, nbytes: int) -> None:
        """Say how large the file can become, for the message when the disk is full."""
        self._file.expect(nbytes)

    def add(self, name: str, tensor: CompressedTensor, *, digest: str) -> TensorEntry:
        """Store a tensor.

        Args:
            name: see `names.check_name`.
            tensor: its streams are written now and not kept.
            digest: `tensor_digest` of the original.
        """
        self._require_new(name)
        dtype, shape = np.dtype(tensor.dtype), tuple(tensor.shape)
        # A pass through a pytree sorts the streams by name: ask for the order that is stored.
        order = stream_specs(tensor.codec, tensor.layout, dtype, shape)
        streams = tuple(
            self._write_chunk(stream, np.asarray(tensor.streams[stream])) for stream in order
        )
        entry = TensorEntry(
            name=name,
            dtype=dtype,
            shape=shape,
            codec=tensor.codec,
            layout=tensor.layout,
            digest=digest,
            streams=streams,
        )
        self._entries[name] = entry
        self._stored_names[name] = name
        return entry

    def tie(self, name: str, stored: str) -> None:
        """Say that the tensor called `name` has the bits of the one stored as `stored`."""
        self._require_new(name)
        self._stored_names[name] = self._entries[stored].name

    def commit(self, *, check: Callable[[Path], None] | None = None) -> int:
        """Write index and header, put the file in its place and give its size in bytes.

        Args:
            check: called with the path of the complete file before it takes its place.
        """
        check_names(self._stored_names)
        data = dump_json(index_to_json(self.index))
        if len(data) > INDEX_NBYTES_MAX:
            raise FormatError(
                f"an index may take {INDEX_NBYTES_MAX} bytes",
                got=len(data),
                fix="write fewer tensors to one file",
            )
        offset = self._file.position
        self._file.write(data)
        header = Header(
            file_nbytes=self._file.position,
            index_offset=offset,
            index_nbytes=len(data),
            index_checksum=checksum64(data),
        )
        self._file.seek(0)
        self._file.write(pack_header(header))
        self._file.commit(check=check)
        return header.file_nbytes

    def _require_new(self, name: str) -> None:
        if name in self._stored_names:
            raise ArgumentError("a tensor may be written once", got=shown(name))

    def _write_chunk(self, name: str, array: np.ndarray) -> StreamEntry:
        data = tensor_bytes(array)
        padding = bytes(padded_nbytes(data.size) - data.size)
        offset = self._file.position
        self._file.write(data.data)
        self._file.write(padding)
        return StreamEntry(
            name=name,
            dtype=array.dtype,
            shape=array.shape,
            offset=offset,
            nbytes=array.nbytes,
            checksum=checksum_text(data.data, padding),
        )
