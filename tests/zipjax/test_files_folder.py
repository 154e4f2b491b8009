"""Folders of models: compressed, resumed, and back byte by byte."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pallas_kernels import ArgumentError, FormatError
from zipjax.cli import main
from zipjax.files.folder_conversion import compress_folder, decompress_folder
from zipjax.files.folder_lock import locked
from zipjax.files.folder_plan import plan_folder
from zipjax.files.in_order import map_in_order
from zipjax.files.model_folder import open_model_folder
from zipjax.files.tensor_source import TensorSource

DTYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "I64": np.int64}


def write_safetensors(path: Path, tensors: dict, *, metadata: dict | None = None, spaces: int = 0):
    """By hand, in an order and with spaces that nobody would choose."""
    header: dict = {"__metadata__": metadata} if metadata else {}
    begin = 0
    for name, (dtype, x) in reversed(tensors.items()):
        header[name] = {
            "shape": list(x.shape),
            "dtype": dtype,
            "data_offsets": [begin, begin + x.nbytes],
        }
        begin += x.nbytes
    text = json.dumps(header, indent=1).encode() + b" " * spaces
    data = b"".join(x.tobytes() for _, x in reversed(tensors.values()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def draw(dtype: str, *shape: int, seed: int = 0):
    x = np.random.default_rng(seed).normal(0, 0.02, shape)
    return dtype, x.astype(DTYPES[dtype])


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two shards, one in a folder of its own, an index, and what comes with a model."""
    source = tmp_path / "model"
    first = {
        "a": draw("BF16", 100, 130),
        "b": draw("F16", 4100, seed=1),
        "n": ("I64", np.arange(5)),
        "none": draw("F32", 0, 3),
    }
    first["twin"] = first["a"]
    write_safetensors(source / "model-00001.safetensors", first, metadata={"format": "pt"})
    write_safetensors(source / "part" / "more.safetensors", {"c": draw("F32", 70, 70)}, spaces=13)
    (source / "config.json").write_text('{"model_type": "nobody"}')
    (source / "tokenizer.json").write_bytes(os.urandom(100))
    (source / "pytorch_model.bin").write_bytes(b"pickle")
    (source / ".git").mkdir()
    return source


def compress(folder: Path, target: Path, **options):
    return compress_folder(plan_folder(folder, suffix=".safetensors"), target, **options)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_folder_comes_back_byte_by_byte(folder, tmp_path, num_threads):
    target, back = tmp_path / "zipj", tmp_path / "back"
    summary = compress(folder, target, num_threads=num_threads)
    assert summary.num_tensors == 6
    assert summary.left_out == (".git", "pytorch_model.bin")
    assert sorted(files_of(target)) == [
        "config.json",
        "model-00001.zipj",
        "part/more.zipj",
        "tokenizer.json",
    ]
    decompress_folder(plan_folder(target, suffix=".zipj"), back)
    want = files_of(folder)
    del want["pytorch_model.bin"]
    assert files_of(back) == want


def test_threads_write_the_same_file(folder, tmp_path):
    compress(folder, tmp_path / "one", num_threads=1)
    compress(folder, tmp_path / "many", num_threads=4)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


def test_a_finished_file_is_not_written_again(folder, tmp_path):
    target = tmp_path / "zipj"
    compress(folder, target)
    (target / "part" / "more.zipj").unlink()
    (target / "config.json").unlink()
    before = (target / "model-00001.zipj").stat()
    (target / ".model-00001.zipj.0123456789ab.tmp").write_bytes(b"left by a killed run")
    moves: list[int] = []
    summary = compress(folder, target, on_bytes=moves.append)
    assert summary.reused == ("model-00001.zipj",)
    after = (target / "model-00001.zipj").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert set(files_of(target)) == {
        "config.json",
        "model-00001.zipj",
        "part/more.zipj",
        "tokenizer.json",
    }
    assert sum(moves) == 2 * summary.raw_nbytes


@pytest.mark.parametrize("damage", ["chunk", "truncated", "other tensors", "other header"])
def test_a_file_that_is_not_right_is_not_kept(folder, tmp_path, damage):
    target = tmp_path / "zipj"
    compress(folder, target)
    path = target / "part" / "more.zipj"
    data = bytearray(path.read_bytes())
    if damage == "chunk":
        data[80] ^= 1
        path.write_bytes(data)
    elif damage == "truncated":
        path.write_bytes(data[:-7])
    else:
        x = draw("F32", 70, 70, seed=7 if damage == "other tensors" else 0)
        spaces = 13 if damage == "other tensors" else 14
        write_safetensors(folder / "part" / "more.safetensors", {"c": x}, spaces=spaces)
    with pytest.raises(ArgumentError, match="damaged or something else"):
        compress(folder, target)
    summary = compress(folder, target, force=True)
    assert summary.reused == ("model-00001.zipj",)
    decompress_folder(plan_folder(target, suffix=".zipj"), tmp_path / "back")
    assert (
        files_of(tmp_path / "back")["part/more.safetensors"]
        == (folder / "part" / "more.safetensors").read_bytes()
    )


def test_a_killed_run_goes_on(folder, tmp_path):
    """The process ends in the middle of the second file, without a chance to clean up."""
    target = tmp_path / "zipj"
    code = """
import os, sys
from pathlib import Path
from zipjax.files.folder_conversion import compress_folder
from zipjax.files.folder_plan import plan_folder
plan = plan_folder(Path(sys.argv[1]), suffix=".safetensors")
done = []
def on_bytes(nbytes):
    done.append(nbytes)
    if len(done) == 10: os._exit(9)
compress_folder(plan, sys.argv[2], on_bytes=on_bytes)
"""
    killed = subprocess.run([sys.executable, "-c", code, folder, target], check=False, timeout=120)
    assert killed.returncode == 9
    assert not (target / "config.json").exists()
    assert [path.name[:11] for path in (target / "part").iterdir()] == [".more.zipj."]
    summary = compress(folder, target)
    assert summary.reused == ("model-00001.zipj",)
    assert len(files_of(target)) == 4


def test_a_folder_has_one_writer(folder, tmp_path):
    target = tmp_path / "zipj"
    with locked(target), pytest.raises(ArgumentError, match="one writer"):
        compress(folder, target)


def test_links_to_files_are_followed(folder, tmp_path):
    """A download cache of Hugging Face is a folder of links."""
    linked = tmp_path / "snapshot"
    linked.mkdir()
    for path in folder.glob("*.*"):
        if path.is_file():
            (linked / path.name).symlink_to(path)
    compress(linked, tmp_path / "zipj")
    assert not any(path.is_symlink() for path in (tmp_path / "zipj").iterdir())


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda path: None, ArgumentError, "must be a folder"),
        (lambda path: path.mkdir(), ArgumentError, "must hold .safetensors files"),
    ],
)
def test_no_model_is_an_error(tmp_path, make, error, text):
    make(tmp_path / "x")
    with pytest.raises(error, match=text):
        plan_folder(tmp_path / "x", suffix=".safetensors")


def test_both_forms_in_a_folder_are_refused(folder):
    (folder / "model-00001.zipj").write_bytes(b"")
    with pytest.raises(FormatError, match="in one form"):
        plan_folder(folder, suffix=".safetensors")


def test_a_target_inside_the_source_is_refused(folder):
    with pytest.raises(ArgumentError, match="outside the source"):
        compress(folder, folder / "zipj")


def test_an_index_that_says_something_else_is_damage(folder):
    write = (folder / "model.safetensors.index.json").write_text
    names = dict.fromkeys(["a", "b", "n", "none", "twin"], "model-00001.safetensors")
    write(json.dumps({"weight_map": names}))
    assert list(open_model_folder(folder).tensors()) == ["twin", "none", "n", "b", "a"]
    write(json.dumps({"weight_map": names | {"d": "model-00001.safetensors"}}))
    with pytest.raises(FormatError, match=r"lists; got 'd'"):
        open_model_folder(folder).tensors()
    write(json.dumps({"weight_map": {"a": "../model-00001.safetensors"}}))
    with pytest.raises(FormatError, match="of the folder"):
        open_model_folder(folder)
    write(json.dumps({"weight_map": names | {"d": "model-00002.safetensors"}}))
    with pytest.raises(FormatError, match=r"model-00002\.safetensors, or its \.zipj"):
        open_model_folder(folder)


def test_commands_take_folders(folder, tmp_path, capsys):
    target, back = tmp_path / "zipj", tmp_path / "back"
    assert main(["compress", str(folder), str(target)]) == 0
    assert "6 tensors in 2 files" in capsys.readouterr().err
    assert main(["inspect", str(target)]) == 0
    assert "part" not in capsys.readouterr().err
    assert main(["verify", str(target), "--against", str(folder)]) == 0
    assert main(["decompress", str(target), str(back)]) == 0
    assert (back / "config.json").read_bytes() == (folder / "config.json").read_bytes()
    write_safetensors(folder / "part" / "more.safetensors", {"c": draw("F32", 70, 70, seed=9)})
    capsys.readouterr()
    assert main(["verify", str(target), "--against", str(folder)]) == 1
    assert "1 not as in" in capsys.readouterr().err
    assert main(["compress", str(folder), str(target), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["raw_nbytes"] > 0


def test_work_in_order_stays_within_the_largest():
    held, most = 0, 0
    sizes = [5, 1, 1, 3, 5, 2, 2, 2, 5]

    def source(size):
        return TensorSource(name="x", dtype=np.dtype(np.uint8), shape=(size,), read=None)

    def begin(item):
        nonlocal held, most
        held += item.nbytes
        most = max(most, held)
        return item.nbytes

    got = []
    for nbytes in map_in_order(begin, [source(size) for size in sizes], num_threads=3):
        got.append(nbytes)
        held -= nbytes
    assert got == sizes
    assert most <= 2 * max(sizes)  # one that was taken may not have been counted off yet


def test_an_error_in_the_middle_ends_the_work():
    def fail(item):
        raise FormatError("no")

    sources = [
        TensorSource(name=str(i), dtype=np.dtype(np.uint8), shape=(i,), read=None) for i in range(9)
    ]
    with pytest.raises(FormatError, match="no"):
        list(map_in_order(fail, sources, num_threads=2))
