"""An open container: what it reads, when it checks, and what it says when the file changes."""

import os

import numpy as np
import pytest

import zipjax
from zipjax import ArgumentError, ChecksumError, FormatError
from zipjax.files.container import Container
from zipjax.files.source import BytesSource, FileSource

TREE = {name: np.arange(1000) + number for number, name in enumerate("abc")}


class CountingSource(BytesSource):
    """Bytes that remember which of them were read."""

    def __init__(self, data: bytes):
        super().__init__(data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, offset, nbytes):
        self.ranges.append((offset, nbytes))
        return super().read(offset, nbytes)


@pytest.fixture
def path(tmp_path):
    zipjax.save(tmp_path / "a.zipj", TREE)
    return tmp_path / "a.zipj"


def _damage(path, tensor: str) -> None:
    """Flip a bit in the data of a tensor."""
    with Container.open(path) as container:
        offset = container.entry(tensor).streams[0].offset
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 4
    path.write_bytes(data)


def test_opening_reads_header_and_index_and_a_tensor_reads_its_chunks(path):
    source = CountingSource(path.read_bytes())
    with Container(source) as container:
        header = container.header
        assert source.ranges == [(0, 64), (header.index_offset, header.index_nbytes)]
        source.ranges.clear()
        container.compressed("b")
        stream = container.entry("b").streams[0]
        assert source.ranges == [(stream.offset, 8000)]  # 8,000 is a multiple of 64.


def test_chunks_are_aligned_and_tile_the_file(path):
    with Container.open(path) as container:
        position = 64
        for entry in container.index.entries.values():
            for stream in entry.streams:
                assert stream.offset == position and stream.offset % 64 == 0
                position = stream.end
        assert position == container.header.index_offset


def test_damage_is_found_in_the_tensor_that_has_it_and_in_no_other(path):
    _damage(path, "b")
    with zipjax.load(path) as tensors:
        assert np.array_equal(tensors["a"], TREE["a"])
        with pytest.raises(ChecksumError, match="tensor 'b' is damaged"):
            tensors["b"]
        assert np.array_equal(tensors["c"], TREE["c"])


@pytest.mark.parametrize("verify, num_checked", [("once", 1), ("always", 3), ("never", 0)])
def test_verify_says_when_checksums_are_compared(path, monkeypatch, verify, num_checked):
    checked = []
    monkeypatch.setattr(
        "zipjax.files.container._require_checksum", lambda *args: checked.append(args)
    )
    with Container.open(path, verify=verify) as container:
        for _ in range(3):
            container.compressed("a")
    assert len(checked) == num_checked


def test_an_unknown_verify_is_refused(path):
    with pytest.raises(ArgumentError, match="once"):
        zipjax.load(path, verify="sometimes")


def test_a_mapped_file_gives_views_of_its_pages(path):
    with zipjax.load(path, access="map") as tensors:
        stream = tensors.compressed("a").streams["raw"]
        assert not stream.flags.owndata and not stream.flags.writeable
        assert np.array_equal(tensors["a"], TREE["a"])
    assert np.array_equal(stream.view(np.int64), TREE["a"])  # Valid after closing.
    with pytest.raises(ArgumentError, match="read"):
        zipjax.load(path, access="copy")


@pytest.mark.parametrize("access", ["read", "map"])
@pytest.mark.parametrize("change", ["cut", "grow", "rewrite"])
def test_a_file_that_changes_while_it_is_open_is_refused(path, access, change):
    data = path.read_bytes()
    with zipjax.load(path, access=access) as tensors:
        with path.open("r+b") as file:
            if change == "rewrite":
                file.write(data)
                os.utime(path, ns=(1, 1))
            else:
                file.truncate(100 if change == "cut" else len(data) + 1)
        with pytest.raises(FormatError, match="must not change while it is open"):
            tensors["a"]


def test_a_file_that_is_replaced_is_read_as_it_was_opened(path):
    with zipjax.load(path) as tensors:
        zipjax.save(path, {"a": np.zeros(3)})
        assert np.array_equal(tensors["c"], TREE["c"])
    assert list(zipjax.load(path)) == ["a"]


def test_a_closed_file_says_so(path):
    tensors = zipjax.load(path)
    tensors.close()
    tensors.close()
    with pytest.raises(ArgumentError, match="closed"):
        tensors["a"]


def test_files_are_closed_when_forgotten_or_refused(path):
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    for _ in range(20):
        zipjax.load(path)["a"]
        with pytest.raises(ArgumentError):
            zipjax.load(path, names=["nobody"])
    path.write_bytes(b"junk")
    for _ in range(20):
        with pytest.raises(FormatError):
            zipjax.load(path)
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    with pytest.raises(FormatError, match="a folder"):
        FileSource(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="a pipe or device"):
        FileSource(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        zipjax.load(tmp_path / "nobody")


def test_a_failing_disk_raises_an_error(path, monkeypatch):
    def fail(*args):
        raise OSError(5, "Input/output error")

    with zipjax.load(path) as tensors:
        monkeypatch.setattr(os, "preadv", fail)
        with pytest.raises(zipjax.DiskError, match=r"cannot read .*Input/output error") as error:
            tensors["a"]
        assert error.value.errno == 5
