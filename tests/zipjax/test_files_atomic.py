"""A file that appears whole or not at all."""

import os
import pickle
import stat

import numpy as np
import pytest

import zipjax
from tests.reliability.faults import FailingDisk
from zipjax.files.atomic import AtomicFile
from zipjax.files.disk import Disk, DiskError


def test_it_appears_on_commit(tmp_path):
    path = tmp_path / "a"
    with AtomicFile(path) as file:
        file.write(b"12345")
        file.seek(1)
        file.write(b"x")
        assert not path.exists() and len(list(tmp_path.iterdir())) == 1
        file.commit()
    assert path.read_bytes() == b"1x345"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_it_vanishes_without_commit_and_on_errors_of_every_kind(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with AtomicFile(path) as file:
        file.write(b"new")
    for kind in (ValueError, KeyboardInterrupt):
        with pytest.raises(kind), AtomicFile(path) as file:
            file.write(b"new")
            raise kind
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_check_that_fails_keeps_it_from_its_place(tmp_path):
    def refuse(temp):
        assert temp.read_bytes() == b"new"
        raise ValueError("no")

    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ValueError), AtomicFile(path) as file:
        file.write(b"new")
        file.commit(check=refuse)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_everything_is_synced_before_and_after_the_rename(tmp_path):
    disk = FailingDisk()
    with AtomicFile(tmp_path / "a", disk=disk) as file:
        file.write(b"new")
        file.commit()
    assert disk.calls == ["create", "write", "sync", "close", "replace", "sync_folder"]


def test_a_private_file_stays_private(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o600)
    zipjax.save(path, {"x": np.arange(3)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    zipjax.save(tmp_path / "link", {"x": np.arange(3)})
    assert (tmp_path / "link").is_symlink()
    assert list(zipjax.load(tmp_path / "target")) == ["x"]


def test_a_missing_folder_is_explained(tmp_path):
    with pytest.raises(DiskError, match="make the folder first") as error:
        zipjax.save(tmp_path / "nowhere" / "a.zipj", {"x": np.arange(3)})
    assert "nowhere/a.zipj" in str(error.value)


def test_errors_cross_processes():
    error = DiskError("cannot write a", got="1 byte", fix="free some", errno=28)
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.errno) == (str(error), 28) and isinstance(back, OSError)


class FullDisk(Disk):
    """A disk with room for 1,000 bytes."""

    def __init__(self):
        self.room = 1000

    def write(self, fd, data):
        if not self.room:
            raise OSError(28, os.strerror(28))
        num = super().write(fd, data[: self.room])
        self.room -= num
        return num

    def free_nbytes(self, folder):
        return self.room


def test_a_full_disk_says_how_much_is_written_missing_and_free(tmp_path):
    with pytest.raises(DiskError) as error, AtomicFile(tmp_path / "a", disk=FullDisk()) as file:
        file.expect(5000)
        file.write(bytes(3000))
    assert str(error.value) == (
        f"cannot write {tmp_path / 'a'}: No space left on device; got 1,000 bytes written, "
        "between 2,000 and 4,000 more needed, 0 free on that disk; "
        "free some space or write to another disk."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_nothing_is_no_endless_loop(tmp_path):
    class LazyDisk(Disk):
        def write(self, fd, data):
            return 0

    with (
        pytest.raises(DiskError, match="takes no more"),
        AtomicFile(tmp_path / "a", disk=LazyDisk()) as file,
    ):
        file.write(b"new")
