"""`.npz`: read without pickle, written so that NumPy reads it."""

import io
import zipfile

import ml_dtypes
import numpy as np
import pytest

import zipjax
from zipjax import ArgumentError, FormatError, UnsupportedError
from zipjax.files.convert import compress_file, decompress_file
from zipjax.files.npz_file import open_npz
from zipjax.files.tensor_file import open_tensors

TREE = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "params/w": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "c": np.array([True, False]),
    "e": np.zeros((0, 2), np.int8),
    "s": np.asarray(5j),
}


def _member(text: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    header = text.encode()
    length = len(header).to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + length + header + data


def _npz(path, member: bytes):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", member)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path, save):
    save(tmp_path / "a.npz", **TREE)
    sources = open_npz(tmp_path / "a.npz")
    assert [source.name for source in sources] == list(TREE)
    for source in sources:
        x, want = source.read(), TREE[source.name]
        assert (x.dtype, x.shape) == (source.dtype, source.shape) == (want.dtype, want.shape)
        assert np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(want).tobytes()


def test_what_we_write_is_read_by_numpy_and_does_not_depend_on_the_day(tmp_path):
    np.savez(tmp_path / "a.npz", **TREE)
    compress_file(open_tensors(tmp_path / "a.npz"), tmp_path / "a.zipj")
    for name in ("b.npz", "c.npz"):
        decompress_file(tmp_path / "a.zipj", tmp_path / name)
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    with np.load(tmp_path / "b.npz", allow_pickle=False) as back:
        assert back.files == list(TREE)
        for name, want in TREE.items():
            assert np.array_equal(back[name], want) and back[name].dtype == want.dtype


def test_dtypes_that_numpy_cannot_name_are_refused(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"x": np.arange(2), "w": np.zeros(2, ml_dtypes.bfloat16)})
    with pytest.raises(ArgumentError, match=r"bfloat16 of 'w'; write \.safetensors"):
        decompress_file(tmp_path / "a.zipj", tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", w=np.zeros(2, ml_dtypes.bfloat16))
    with pytest.raises(FormatError, match="nameless bytes"):
        open_npz(tmp_path / "c.npz")
    assert not (tmp_path / "b.npz").exists()


def test_pickled_objects_are_refused_and_never_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.array([{"a": 1}], object))
    with pytest.raises(FormatError, match="kept as pickle"):
        open_npz(tmp_path / "a.npz")


def test_big_endian_is_refused_with_the_way_out(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(2, ">f4"))
    with pytest.raises(UnsupportedError, match="astype"):
        open_npz(tmp_path / "a.npz")


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    "member, text",
    [
        (b"", "must start as .npy"),
        (b"\x93NUMPX" + bytes(20), "must start as .npy"),
        (_member(GOOD, bytes(8), b"\x09\x00"), "must start as .npy"),
        (_member("{'descr': '<f4'"), "must be a literal"),
        (_member("__import__('os')"), "must be a literal"),
        (_member("(" * 5000), "must be a literal"),
        (_member("{'descr': '<f4', 'shape': (2,)}"), "descr, fortran_order and shape"),
        (_member(GOOD.replace("'<f4'", "[('a', '<f4')]"), bytes(8)), "numbers of one kind"),
        (_member(GOOD.replace("'<f4'", "'<f4,<f4'"), bytes(16)), "numbers of one kind"),
        (_member(GOOD.replace("'<f4'", "'<f3'"), bytes(8)), "must exist"),
        (_member(GOOD.replace("'<f4'", "'|O8'"), bytes(16)), "pickle"),
        (_member(GOOD.replace("False", "0"), bytes(8)), "True or False"),
        (_member(GOOD.replace("(2,)", "2"), bytes(8)), "must be a list"),
        (_member(GOOD.replace("(2,)", "(-2,)"), bytes(8)), "from 0"),
        (_member(GOOD.replace("(2,)", "(True,)"), bytes(4)), "from 0"),
        (_member(GOOD.replace("(2,)", "(1 << 40,)"), bytes(4)), "must be a literal"),
        (_member(GOOD.replace("(2,)", "(1099511627776,)"), bytes(8)), "must take 4398046511104"),
        (_member(GOOD, bytes(7)), "must take 8 bytes"),
        (_member(GOOD, bytes(9)), "must take 8 bytes"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, member, text):
    with pytest.raises(FormatError, match=text):
        open_npz(_npz(tmp_path / "a.npz", member))


def test_a_broken_archive_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", **TREE)
    data = (tmp_path / "a.npz").read_bytes()
    for broken in (b"", b"PK", data[:-30], data[: len(data) // 2]):
        (tmp_path / "b.npz").write_bytes(broken)
        with pytest.raises(FormatError, match=r"whole \.npz file"):
            open_npz(tmp_path / "b.npz")


def test_damaged_data_is_found_by_the_archives_checksum(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(100))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[300] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(FormatError, match="CRC"):
        open_npz(tmp_path / "a.npz")[0].read()


def test_members_that_are_no_arrays_are_refused(tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme.txt", "hello")
    (tmp_path / "a.npz").write_bytes(stream.getvalue())
    with pytest.raises(FormatError, match=r"end in \.npy"):
        open_npz(tmp_path / "a.npz")


def test_a_writer_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    zipjax.save(tmp_path / "a.zipj", TREE)
    monkeypatch.setattr("zipjax.files.disk.Disk.write", fail)
    with pytest.raises(zipjax.DiskError):
        decompress_file(tmp_path / "a.zipj", tmp_path / "b.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zipj"]
