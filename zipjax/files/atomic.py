"""A file that appears whole or not at all: written aside, synced, renamed, its folder synced."""

import contextlib
import glob
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from zipjax.files.disk import Disk, DiskError

_MODE = 0o666


class AtomicFile:
    """A new file beside `path` that takes its place on `commit` and vanishes on anything else.

    Used as a context manager: leaving the block without `commit`, by an error or not, removes what
    was written. Whatever stood at `path` is untouched until the new file is complete on the disk.
    """

    def __init__(self, path: str | os.PathLike[str], *, disk: Disk | None = None):
        """Create the file aside.

        Args:
            path: where the file shall be; a symbolic link is followed, so that its target changes.
            disk: the calls to use; tests pass one that fails.

        Raises:
            DiskError: the file cannot be created.
        """
        self.path = Path(os.path.realpath(path))
        self.position = 0
        self.num_expected_nbytes = 0
        self._disk = disk or Disk()
        self._temp = self.path.with_name(_temp_name(self.path.name, secrets.token_hex(6)))
        self._fd: int | None = None
        self._written_nbytes = 0
        self._committed = False
        try:
            self._fd = self._disk.create(self._temp, self._mode())
        except OSError as error:
            raise DiskError.of(error, f"cannot write {self.path}") from error

    def __enter__(self) -> "AtomicFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._committed:
            self._abandon()

    def expect(self, nbytes: int) -> None:
        """Say how many bytes will be written at most, for the message when the disk is full."""
        self.num_expected_nbytes = nbytes

    def write(self, data: bytes | memoryview) -> int:
        """Write all of `data`, one byte an item, at the current position and give its size.

        Raises:
            DiskError: with how much was written, how much is missing and how much is free.
        """
        left = memoryview(data)
        nbytes = left.nbytes
        while left.nbytes:
            num_written = self._call(self._disk.write, self._open_fd(), left, missing=left.nbytes)
            if num_written <= 0:
                raise DiskError(f"cannot write {self.path}: the disk takes no more bytes")
            self.position += num_written
            self._written_nbytes = max(self._written_nbytes, self.position)
            left = left[num_written:]
        return nbytes

    def seek(self, offset: int) -> int:
        """Move to `offset` from the start and give it."""
        self._call(self._disk.seek, self._open_fd(), offset)
        self.position = offset
        return offset

    def commit(self, *, check: Callable[[Path], None] | None = None) -> None:
        """Put the file in its place.

        Args:
            check: called with the path of the finished file aside; what it raises keeps the file
                from its place.

        Raises:
            DiskError: the old file is still there and whole, and nothing is left aside; or, if only
                the last sync of the folder failed, the new file is there and whole.
        """
        fd = self._open_fd()
        self._call(self._disk.sync, fd)
        # A network file system may report a full quota only now.
        self._fd = None
        self._call(self._disk.close, fd)
        if check is not None:
            check(self._temp)
        self._call(self._disk.replace, self._temp, self.path)
        self._committed = True
        self._call(self._disk.sync_folder, self.path.parent)

    def _mode(self) -> int:
        """The permissions of the file to be replaced, so that a private file stays private."""
        try:
            return stat.S_IMODE(os.stat(self.path).st_mode)
        except OSError:
            return _MODE

    def _open_fd(self) -> int:
        if self._fd is None:
            raise ValueError("the file is closed")
        return self._fd

    def _call(self, call: Callable[..., Any], *args: object, missing: int = 0) -> Any:
        try:
            return call(*args)
        except OSError as error:
            raise DiskError.of(
                error, f"cannot write {self.path}", got=self._progress(missing)
            ) from error

    def _progress(self, missing_nbytes: int) -> str:
        parts = [f"{self._written_nbytes:,} bytes written"]
        most = max(self.num_expected_nbytes - self._written_nbytes, missing_nbytes)
        if missing_nbytes:
            parts.append(f"between {missing_nbytes:,} and {most:,} more needed")
        try:
            parts.append(f"{self._disk.free_nbytes(self.path.parent):,} free on that disk")
        except OSError:
            pass  # A disk that cannot say is no reason to hide the first error.
        return ", ".join(parts)

    def _abandon(self) -> None:
        """Close and remove what was written aside; the error that led here matters more."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):
                self._disk.close(fd)
        with contextlib.suppress(OSError):
            self._disk.remove(self._temp)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed left aside of the file at `path`.

    Nobody else may be writing that file.
    """
    target = Path(os.path.realpath(path))
    for left in target.parent.glob(glob.escape(_temp_name(target.name, "?")).replace("[?]", "*")):
        left.unlink(missing_ok=True)


def _temp_name(name: str, token: str) -> str:
    return f".{name[:100]}.{token}.tmp"
