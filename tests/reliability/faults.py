"""Row 15: the N-th file call of a save fails; the old file stays, nothing is left aside."""

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.reliability.tally import Tally
from zipjax.files import DiskError, load, save, verify
from zipjax.files.disk import Disk
from zipjax.files.saving import save_sources
from zipjax.files.tree import tree_sources

ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EMFILE")
NAMES = "abcdefghijklmnopqrst"
_FREE_NBYTES = 12_345


class FailingDisk(Disk):
    """A disk whose `fail_at`-th call fails.

    Attributes:
        num_calls: calls made so far.
        calls: their names.
    """

    def __init__(self, fail_at: int = -1, code: int | None = errno.EIO):
        """Fail call number `fail_at` with `code`; with None, write half and fail the call after."""
        self.num_calls = 0
        self.calls: list[str] = []
        self._fail_at = fail_at
        self._code = code

    def _counted(self, name: str, call: Callable, *args: Any) -> Any:
        at, self.num_calls = self.num_calls, self.num_calls + 1
        self.calls.append(name)
        if self._code is not None and at == self._fail_at:
            raise OSError(self._code, os.strerror(self._code))
        if self._code is None and name == "write":
            if at == self._fail_at:
                return call(args[0], args[1][: max(1, len(args[1]) // 2)])
            if at == self._fail_at + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(*args)

    def create(self, *args):
        return self._counted("create", super().create, *args)

    def write(self, *args):
        return self._counted("write", super().write, *args)

    def seek(self, *args):
        return self._counted("seek", super().seek, *args)

    def sync(self, *args):
        return self._counted("sync", super().sync, *args)

    def close(self, *args):
        # Whatever close says, the descriptor is gone afterwards.
        super().close(*args)
        return self._counted("close", lambda fd: None, *args)

    def replace(self, *args):
        return self._counted("replace", super().replace, *args)

    def sync_folder(self, *args):
        return self._counted("sync_folder", super().sync_folder, *args)

    def free_nbytes(self, folder: Path) -> int:
        return _FREE_NBYTES


def failing_saves() -> Tally:
    """Every call of a small save, with every error; and every write, cut short."""
    tally = Tally(15, "errors at the N-th file call of a save")
    old = {"old": np.arange(7)}
    new = {name: np.arange(number + 3) for number, name in enumerate(NAMES)}
    with tempfile.TemporaryDirectory() as folder:
        probe = FailingDisk()
        save_sources(Path(folder) / "probe", tree_sources(new), disk=probe)
        for what, disk in _failing_disks(probe.calls):
            path = Path(folder) / "model.zipj"
            save(path, old)
            before = path.read_bytes()
            tally.num_cases += 1
            try:
                save_sources(path, tree_sources(new), disk=disk)
                tally.wrong.append(f"{what}: no error")
            except DiskError as error:
                tally.num_refused += 1
                tally.wrong += _complaints(what, error, path, before)
            except Exception as error:
                tally.wrong.append(f"{what}: {type(error).__name__}: {error}")
    return tally.done()


def _failing_disks(calls: list[str]) -> Iterator[tuple[str, FailingDisk]]:
    for at, call in enumerate(calls):
        for name in ERRORS:
            yield f"{name} at call {at}, {call}", FailingDisk(at, getattr(errno, name))
        if call == "write" and "write" in calls[at + 1 : at + 2]:
            yield f"short write at call {at}", FailingDisk(at, None)


def _complaints(what: str, error: DiskError, path: Path, before: bytes) -> Iterator[str]:
    """What is not as it should be after a failed save."""
    if list(path.parent.glob(".*.tmp")):
        yield f"{what}: left a file aside"
    if what.endswith("sync_folder"):
        # The new file already has its name: then it must be complete.
        verify(path)
        with load(path) as tensors:
            if "".join(tensors) != NAMES:
                yield f"{what}: neither the old file nor the new"
    elif path.read_bytes() != before:
        yield f"{what}: the old file changed"
    message = str(error)
    if str(path) not in message:
        yield f"{what}: {message!r} does not name the file"
    if "create" not in what and "bytes written" not in message:
        yield f"{what}: {message!r} does not say how much was written"
    if "write" in what and not ("more needed" in message and f"{_FREE_NBYTES:,} free" in message):
        yield f"{what}: {message!r} does not say how much is missing"
