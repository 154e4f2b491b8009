"""One writer at a time in a folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pallas_kernels import ArgumentError

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make `folder` and keep other writers out of it; the lock ends with the process.

    Raises:
        ArgumentError: another process writes into it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":  # No such lock there: two writers replace each other's files.
        yield
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        _lock(fd, folder)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, folder: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ArgumentError(
            f"{folder} must have one writer", got="another process writes into it"
        ) from None
