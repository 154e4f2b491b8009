"""Read a container: parse its index, fetch and check the chunks of one tensor at a time."""

import os
from types import TracebackType
from typing import Literal

import numpy as np

from pallas_kernels import ArgumentError, ChecksumError, CompressedTensor, FormatError
from zipjax.files.checksum import checksum64, checksum_text
from zipjax.files.header import Header, parse_header
from zipjax.files.index import Index, StreamEntry, TensorEntry
from zipjax.files.parse_index import parse_index
from zipjax.files.source import Access, FileSource, Source
from zipjax.files.spec import HEADER_NBYTES
from zipjax.files.wording import did_you_mean, shown

Verify = Literal["once", "always", "never"]
"""When the checksum of a chunk is compared: at its first read, at every read, or not at all."""


class Container:
    """An open container.

    Opening reads header and index; a tensor's chunks are read when it is asked for.

    Attributes:
        header: where the index lies.
        index: what tensors there are.
    """

    header: Header
    index: Index

    def __init__(self, source: Source, *, verify: Verify = "once"):
        """Read header and index of `source`, which the container then owns.

        Raises:
            FormatError: this is no container that this version can read.
        """
        if verify not in ("once", "always", "never"):
            raise ArgumentError("verify must be 'once', 'always' or 'never'", got=repr(verify))
        self._source = source
        self._verify = verify
        self._verified: set[str] = set()
        try:
            self.header = read_header(source)
            self.index = read_index(source, self.header)
        except BaseException:
            source.close()
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        verify: Verify = "once",
        access: Access = "read",
    ) -> "Container":
        """Open the file at `path`; see `FileSource` for `access`."""
        return cls(FileSource(path, access=access), verify=verify)

    def __enter__(self) -> "Container":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    @property
    def name(self) -> str:
        """What the file is called."""
        return self._source.name

    def entry(self, name: str) -> TensorEntry:
        """The entry of the tensor called `name`, or of the one it is tied to.

        Raises:
            ArgumentError: there is none; the message offers the nearest name.
        """
        if name not in self.index.stored_names:
            raise no_such_tensor(name, self.index)
        return self.index.entry(name)

    def compressed(self, name: str) -> CompressedTensor:
        """One tensor as it is stored; reads its chunks and nothing else.

        Raises:
            ArgumentError: there is no such tensor.
            ChecksumError: a chunk was damaged.
            FormatError: the streams contradict each other, or the file changed.
        """
        entry = self.entry(name)
        start = entry.streams[0].offset
        data = self._source.read(start, entry.streams[-1].end - start)
        if self._verify == "always" or (
            self._verify == "once" and entry.name not in self._verified
        ):
            _require_checksums(data, entry, start)
            self._verified.add(entry.name)
        streams = {stream.name: _stream_array(data, stream, start) for stream in entry.streams}
        try:
            return CompressedTensor.from_streams(
                codec=entry.codec,
                layout=entry.layout,
                dtype=entry.dtype,
                shape=entry.shape,
                streams=streams,
            )
        except FormatError as error:
            raise FormatError(
                f"tensor {shown(entry.name)}: {error.what}", got=error.got, fix=error.fix
            ) from None


def read_header(source: Source) -> Header:
    """The header of `source`."""
    data = source.read(0, min(HEADER_NBYTES, source.nbytes)).tobytes()
    return parse_header(data, file_nbytes=source.nbytes)


def read_index(source: Source, header: Header) -> Index:
    """The index of `source`, compared with its checksum before it is parsed."""
    data = source.read(header.index_offset, header.index_nbytes)
    if checksum64(data.data) != header.index_checksum:
        raise ChecksumError("the index of the .zipj file is damaged", fix="copy the file again")
    return parse_index(data.tobytes(), index_offset=header.index_offset)


def no_such_tensor(name: str, index: Index) -> ArgumentError:
    """The error for a name that is not in the file."""
    count = len(index.stored_names)
    return ArgumentError(
        f"the name must be one of the file's {count} tensors",
        got=shown(name),
        fix=did_you_mean(name, index.stored_names) or "see them with `zipjax inspect`",
    )


def _require_checksums(data: np.ndarray, entry: TensorEntry, start: int) -> None:
    for stream in entry.streams:
        _require_checksum(data[stream.offset - start : stream.end - start], stream, entry)


def _require_checksum(data: np.ndarray, stream: StreamEntry, entry: TensorEntry) -> None:
    """The padding is part of what is checked; its bytes must be zero besides."""
    checksum = checksum_text(data.data)
    if checksum != stream.checksum:
        raise ChecksumError(
            f"stream {stream.name} of tensor {shown(entry.name)} is damaged: "
            f"its checksum must be {stream.checksum}",
            got=checksum,
            fix="copy the file again",
        )
    if data[stream.nbytes :].any():
        raise FormatError(
            f"the padding of stream {stream.name} of tensor {shown(entry.name)} must be zero"
        )


def _stream_array(data: np.ndarray, stream: StreamEntry, start: int) -> np.ndarray:
    offset = stream.offset - start
    return data[offset : offset + stream.nbytes].view(stream.dtype).reshape(stream.shape)
