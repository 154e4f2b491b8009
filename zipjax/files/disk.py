"""The few calls with which files are written, gathered so that a test can make any of them fail."""

import errno
import os
import shutil
from pathlib import Path

from pallas_kernels import ZipError

_FIXES = {
    errno.ENOSPC: "free some space or write to another disk",
    errno.EDQUOT: "free some of your quota or write to another disk",
    errno.EMFILE: "close some files or raise `ulimit -n`",
    errno.ENFILE: "close some files: the machine has no more to give",
    errno.EIO: "the disk reports a fault: check it before trusting it again",
    errno.EROFS: "the disk is mounted read-only: write elsewhere",
    errno.EACCES: "ask for permission or write elsewhere",
    errno.EPERM: "ask for permission or write elsewhere",
    errno.ENOENT: "make the folder first",
}


class DiskError(ZipError, OSError):
    """The operating system would not read or write; `errno` says why."""

    def __init__(self, what: str, *, got: object = "", fix: str = "", errno: int | None = None):
        """Keep the parts of a `ZipError` and the error number of the failed call."""
        super().__init__(what, got=got, fix=fix)
        self.errno = errno

    def __reduce__(self):
        return (_rebuild, (self.what, self.got, self.fix, self.errno))

    @classmethod
    def of(cls, error: OSError, what: str, *, got: object = "") -> "DiskError":
        """The error that says what was being done when the system raised `error`."""
        reason = error.strerror or type(error).__name__
        fix = _FIXES.get(error.errno or 0, "")
        return cls(f"{what}: {reason}", got=got, fix=fix, errno=error.errno)


def _rebuild(what: str, got: str, fix: str, number: int | None) -> DiskError:
    """Unpickle in another process, where keyword-only arguments would be lost."""
    return DiskError(what, got=got, fix=fix, errno=number)


class Disk:
    """The file calls of this machine.

    Each method is one call that can fail with `OSError`; `write` may write less than it was given.
    """

    def create(self, path: Path, mode: int) -> int:
        """Open a new file for writing and give its descriptor; the file must not exist."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)

    def write(self, fd: int, data: memoryview) -> int:
        """Write some of `data` at the current position and give the number of bytes written."""
        return os.write(fd, data)

    def seek(self, fd: int, offset: int) -> None:
        """Move the current position to `offset`."""
        os.lseek(fd, offset, os.SEEK_SET)

    def sync(self, fd: int) -> None:
        """Wait until the file's bytes are on the disk."""
        os.fsync(fd)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def replace(self, source: Path, target: Path) -> None:
        """Rename `source` to `target`, in the place of what was there."""
        os.replace(source, target)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in `folder` are on the disk."""
        if os.name == "nt":  # Windows has no descriptor for a folder.
            return
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def free_nbytes(self, folder: Path) -> int:
        """Bytes that this user may still write to the disk of `folder`."""
        return shutil.disk_usage(folder).free
