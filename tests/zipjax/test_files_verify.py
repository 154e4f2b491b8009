"""`verify` and `inspect`."""

import numpy as np
import pytest

import zipjax
from tests.reliability.samples import forge, split_container
from zipjax import ChecksumError, FormatError
from zipjax.files.checksum import checksum_text
from zipjax.files.tree import tree_sources

TREE = {name: np.arange(1000) + number for number, name in enumerate("abcdef")}


@pytest.fixture
def path(tmp_path):
    zipjax.save(tmp_path / "a.zipj", TREE, metadata={"k": "v"})
    return tmp_path / "a.zipj"


def _damage(path, *tensors: str) -> None:
    data = bytearray(path.read_bytes())
    for tensor in tensors:
        offset = data.index(TREE[tensor].tobytes())
        data[offset + 7] ^= 1
    path.write_bytes(data)


def test_a_whole_file_is_well(path):
    seen = []
    result = zipjax.verify(path, on_tensor=lambda entry: seen.append(entry.name))
    assert result.ok and result.differences == ()
    assert seen == list(TREE)
    assert result.summary == zipjax.inspect(path)


def test_damage_is_named(path):
    _damage(path, "c")
    with pytest.raises(ChecksumError, match="tensor 'c' is damaged"):
        zipjax.verify(path)
    _damage(path, "a", "d", "e")
    with pytest.raises(ChecksumError, match=r"4 of 6 tensors are damaged: 'a', 'c', 'd', \.\.\."):
        zipjax.verify(path)


def test_a_tensor_that_was_written_wrongly_is_found_by_its_digest(path):
    """Every checksum is right; only decompressing shows that the data is not the original's."""
    chunks, index = split_container(path.read_bytes())
    other = bytearray(chunks)
    other[3] ^= 1
    stream = index["tensors"][0]["streams"][0]
    stream["xxh3_64"] = checksum_text(bytes(other[:8000]))
    path.write_bytes(forge(bytes(other), index))
    assert zipjax.load(path)["a"].shape == (1000,)
    with pytest.raises(ChecksumError, match="written wrongly"):
        zipjax.verify(path)


def test_padding_that_is_not_zero_is_refused_even_with_its_checksum(tmp_path):
    zipjax.save(tmp_path / "a.zipj", {"a": np.arange(3)})
    chunks, index = split_container((tmp_path / "a.zipj").read_bytes())
    other = chunks[:-1] + b"\1"
    index["tensors"][0]["streams"][0]["xxh3_64"] = checksum_text(other)
    (tmp_path / "a.zipj").write_bytes(forge(other, index))
    with pytest.raises(FormatError, match="padding"):
        zipjax.verify(tmp_path / "a.zipj")


def test_the_original_is_compared_byte_by_byte(path):
    assert zipjax.verify(path, against=tree_sources(TREE)).ok
    other = dict(TREE, b=TREE["b"] + 1, c=TREE["c"].astype(np.int32), new=np.arange(2))
    del other["f"]
    result = zipjax.verify(path, against=tree_sources(other))
    assert not result.ok
    assert result.differences == (
        "'f' is not in the original",
        "'b' differs in 1003 of 8000 bytes",
        "'c' is int64[1000], in the original int32[1000]",
        "'new' is only in the original",
    )
    np.savez(path.with_suffix(".npz"), **TREE)
    assert zipjax.verify(path, against=path.with_suffix(".npz")).ok
    assert zipjax.verify(path, against=path).ok
    assert len(zipjax.verify(path, against=[]).differences) == len(TREE)


def test_inspect_reads_header_and_index_only(path):
    before = zipjax.inspect(path)
    _damage(path, "a", "b")
    assert zipjax.inspect(path) == before
    assert before.metadata == {"k": "v"}
    assert before.raw_nbytes == 6 * 8000 and before.file_nbytes == path.stat().st_size
    tensor = before.tensors[0]
    assert (tensor.name, tensor.shape, tensor.codec) == ("a", (1000,), "raw")
    assert tensor.bits_per_element == 64 and tensor.nbytes == 8000


def test_a_summary_is_plain_json(path):
    value = zipjax.inspect(path).to_json()
    assert value["format_version"] == 1 and value["metadata"] == {"k": "v"}
    assert [tensor["name"] for tensor in value["tensors"]] == list(TREE)
