"""`.safetensors`: our reader and writer beside the package's."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import zipjax
from zipjax import ArgumentError, FormatError
from zipjax.files.convert import compress_file, decompress_file
from zipjax.files.safetensors_file import open_safetensors
from zipjax.files.tensor_file import open_tensors

TREE = {
    "b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.arange(4).astype(ml_dtypes.bfloat16),
    "c": np.array([True, False, True]),
    "e": np.zeros((0, 2), np.int64),
    "s": np.asarray(5, np.uint16),
}


def _write(path, header: dict | bytes, data: bytes):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_what_the_package_writes_is_read(tmp_path):
    save_file(TREE, tmp_path / "a.safetensors", metadata={"k": "v"})
    header, sources = open_safetensors(tmp_path / "a.safetensors")
    assert header.metadata == {"k": "v"}
    assert {source.name for source in sources} == set(TREE)
    for source in sources:
        x = source.read()
        want = TREE[source.name]
        assert (x.dtype, x.shape, x.tobytes()) == (want.dtype, want.shape, want.tobytes())


def test_what_we_write_is_read_by_the_package(tmp_path):
    zipjax.save(tmp_path / "a.zipj", TREE, metadata={"k": "v"})
    decompress_file(tmp_path / "a.zipj", tmp_path / "a.safetensors")
    back = load_file(tmp_path / "a.safetensors")
    for name, want in TREE.items():
        got = back[name]
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())
    assert open_tensors(tmp_path / "a.safetensors").metadata == {"k": "v"}


def test_tensors_we_place_are_aligned(tmp_path):
    zipjax.save(tmp_path / "a.zipj", TREE)
    decompress_file(tmp_path / "a.zipj", tmp_path / "a.safetensors")
    header, _ = open_safetensors(tmp_path / "a.safetensors")
    assert len(header.text) % 8 == 0
    assert all(place.begin % place.dtype.itemsize == 0 for place in header.places)


@pytest.mark.parametrize("padding", [0, 1, 7, 100])
def test_a_file_comes_back_byte_by_byte(tmp_path, padding):
    """Whatever order, spacing and padding its writer chose."""
    header = {
        "z": {"data_offsets": [8, 16], "shape": [2], "dtype": "F32"},
        "__metadata__": {"format": "pt", "\u91cd": "\n"},
        "a": {"dtype": "F8_E4M3", "shape": [2, 4], "data_offsets": [0, 8]},
        "twin": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]},
        "none": {"dtype": "BF16", "shape": [0], "data_offsets": [24, 24]},
    }
    text = json.dumps(header, indent=1).encode() + b" " * padding
    path = _write(tmp_path / "a.safetensors", text, bytes(range(16)) + bytes(range(8, 16)))
    compress_file(open_tensors(path), tmp_path / "a.zipj")
    assert zipjax.inspect(tmp_path / "a.zipj").metadata == header["__metadata__"]
    assert zipjax.inspect(tmp_path / "a.zipj").tensors[2].same_as == "z"
    decompress_file(tmp_path / "a.zipj", tmp_path / "b.safetensors")
    assert (tmp_path / "b.safetensors").read_bytes() == path.read_bytes()


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header, text",
    [
        ({"a": F32 | {"dtype": "F4"}}, "must be one of BOOL"),
        ({"a": F32 | {"dtype": ["F32"]}}, "must be one of BOOL"),
        ({"a": F32 | {"shape": [-2]}}, "from 0"),
        ({"a": F32 | {"shape": [2.0]}}, "integer"),
        ({"a": F32 | {"shape": [True, 2]}}, "from 0"),
        ({"a": F32 | {"shape": [1] * 65}}, "64 axes"),
        ({"a": F32 | {"shape": [0, 1 << 62, 1 << 62], "data_offsets": [0, 0]}}, "at most"),
        ({"a": F32 | {"data_offsets": [0, 7]}}, "must take 8 bytes"),
        ({"a": F32 | {"data_offsets": [8, 0]}}, "must take 8 bytes"),
        ({"a": F32 | {"data_offsets": [4, 12]}}, "at 0"),
        ({"a": F32, "b": F32}, "at 8"),
        ({"a": F32 | {"extra": 1}}, "dtype, shape and data_offsets"),
        ({"a": 5}, "dtype, shape and data_offsets"),
        ({"../a": F32}, "path out of its folder"),
        ({"__metadata__": {"a": 1}}, "text by text"),
        ({}, "after the header"),
        (b"[]", "must start with"),
        (b'{"a":1,"a":1}', "twice"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, header, text):
    path = _write(tmp_path / "a.safetensors", header, bytes(8))
    with pytest.raises(FormatError, match=text):
        open_safetensors(path)


@pytest.mark.parametrize(
    "data, text",
    [
        (b"", "8 bytes"),
        (struct.pack("<Q", 1 << 40), "100000000"),
        (struct.pack("<Q", 100) + b"{}", "truncated"),
    ],
)
def test_a_broken_frame_is_refused(tmp_path, data, text):
    (tmp_path / "a.safetensors").write_bytes(data)
    with pytest.raises(FormatError, match=text):
        open_safetensors(tmp_path / "a.safetensors")


def test_every_truncation_is_refused(tmp_path):
    save_file(TREE, tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes()
    for length in range(len(data)):
        (tmp_path / "b.safetensors").write_bytes(data[:length])
        with pytest.raises(FormatError):
            open_safetensors(tmp_path / "b.safetensors")


def test_a_header_that_contradicts_the_tensors_is_refused(tmp_path):
    from zipjax.files.index import Origin
    from zipjax.files.saving import save_sources
    from zipjax.files.tree import tree_sources

    header = json.dumps({"a": F32})
    save_sources(
        tmp_path / "a.zipj",
        tree_sources({"a": np.zeros(3, np.float32)}),
        origin=Origin(kind="safetensors", header=header),
    )
    with pytest.raises(FormatError, match="original header"):
        decompress_file(tmp_path / "a.zipj", tmp_path / "b.safetensors")
    assert not (tmp_path / "b.safetensors").exists()


def test_dtypes_that_safetensors_has_no_name_for_are_refused(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"w": np.zeros(2, ml_dtypes.int4)})
    with pytest.raises(ArgumentError, match="int4 of 'w'"):
        decompress_file(tmp_path / "a.zipj", tmp_path / "a.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zipj"]
