"""Where the bytes of a container come from: a file, or memory."""

import mmap
import os
import stat
import weakref
from typing import Literal, Protocol

import numpy as np

from pallas_kernels import ArgumentError, FormatError
from zipjax.files.disk import DiskError

Access = Literal["read", "map"]


class Source(Protocol):
    """Bytes that can be read anywhere.

    Attributes:
        name: what to call it in messages.
        nbytes: how many bytes there are.
    """

    name: str
    nbytes: int

    def read(self, offset: int, nbytes: int) -> np.ndarray:
        """uint8 [nbytes], read-only or fresh; raises `FormatError` where there are fewer."""
        ...

    def close(self) -> None:
        """Give back what the operating system lent."""
        ...


class BytesSource:
    """A container in memory."""

    def __init__(self, data: bytes | memoryview, *, name: str = "the container"):
        """Keep a view of `data`."""
        self.name = name
        self.nbytes = len(data)
        self._data = np.frombuffer(data, np.uint8)

    def read(self, offset: int, nbytes: int) -> np.ndarray:
        """A view of the bytes asked for."""
        view = self._data[offset : offset + nbytes]
        if view.size != nbytes:
            raise _truncated(self.name, offset, nbytes, view.size)
        return view

    def close(self) -> None:
        """Nothing was lent."""


class FileSource:
    """A container in a file that must not change while it is read.

    With `access="read"` every read is a copy, so that the bytes that were checked are the bytes
    that are used, and a failing disk raises an error. With `access="map"` a read is a view of the
    mapped file: nothing is read before it is looked at and processes share the pages, but a disk
    that fails under it, or someone who cuts the file, ends the process with SIGBUS.
    """

    def __init__(self, path: str | os.PathLike[str], *, access: Access = "read"):
        """Open the file.

        Raises:
            OSError: there is no such file, or it may not be read.
            FormatError: it is a folder, pipe or device.
        """
        if access not in ("read", "map"):
            raise ArgumentError("access must be 'read' or 'map'", got=repr(access))
        self.name = os.fspath(path)
        # Opening a pipe would wait for its writer: look before.
        _require_regular(os.stat(path).st_mode, self.name)
        self._fd: int | None = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._finalizer = weakref.finalize(self, os.close, self._fd)
        try:
            self._stat = os.fstat(self._fd)
            _require_regular(self._stat.st_mode, self.name)
            self.nbytes = self._stat.st_size
            self._map = _map(self._fd, self.nbytes) if access == "map" else None
        except BaseException:
            self.close()
            raise

    def read(self, offset: int, nbytes: int) -> np.ndarray:
        """The bytes asked for.

        Raises:
            DiskError: the disk failed.
            FormatError: there are fewer, or the file changed since it was opened.
        """
        if self._fd is None:
            raise ArgumentError(f"{self.name} is closed", fix="read before closing it")
        self._require_unchanged()
        if self._map is not None:
            data = self._map[offset : offset + nbytes]
        else:
            data = np.empty(min(nbytes, max(self.nbytes - offset, 0)), np.uint8)
            data = data[: self._read_into(data, offset)]
            self._require_unchanged()
        if data.size != nbytes:
            raise _truncated(self.name, offset, nbytes, data.size)
        return data

    def close(self) -> None:
        """Close the file; what was read or mapped stays valid."""
        self._fd = None
        self._finalizer()

    def _read_into(self, data: np.ndarray, offset: int) -> int:
        """Fill `data` from `offset` and say how many bytes there were."""
        assert self._fd is not None
        num_read = 0
        while num_read < data.size:
            try:
                got = os.preadv(self._fd, [data[num_read:].data], offset + num_read)
            except OSError as error:
                raise DiskError.of(error, f"cannot read {self.name}") from error
            if got == 0:
                break
            num_read += got
        return num_read

    def _require_unchanged(self) -> None:
        assert self._fd is not None
        now, then = os.fstat(self._fd), self._stat
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            raise FormatError(
                f"{self.name} must not change while it is open",
                got=f"{now.st_size} bytes instead of {then.st_size}, or other bytes",
                fix="open it again once its writer has finished",
            )


def _map(fd: int, nbytes: int) -> np.ndarray:
    if nbytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(mmap.mmap(fd, nbytes, access=mmap.ACCESS_READ), np.uint8)


def _require_regular(mode: int, name: str) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or device"
        raise FormatError(f"{name} must be a file", got=kind)


def _truncated(name: str, offset: int, nbytes: int, num_got: int) -> FormatError:
    return FormatError(
        f"{name} must hold {nbytes} bytes at {offset}",
        got=f"{num_got} bytes",
        fix="the file is truncated: copy it again",
    )
