"""What is read, and that nothing held back is learnt from."""

import numpy as np
import pytest

from pallas_kernels import ArgumentError
from zipjax.train import read_text
from zipjax.train.text import SEPARATOR


def write_files(folder, num_files=60, seed=0):
    rng = np.random.default_rng(seed)
    contents = []
    for idx in range(num_files):
        # No zero byte, so that splitting at the separator gives the files back.
        content = rng.integers(1, 256, rng.integers(50, 400), dtype=np.uint8).tobytes()
        path = folder / f"{idx % 7}" / f"{idx}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        contents.append(content)
    return contents


def files_of(part: np.ndarray) -> list[bytes]:
    return part.tobytes().split(SEPARATOR)


def test_every_file_is_on_exactly_one_side(tmp_path):
    contents = write_files(tmp_path)
    text = read_text(tmp_path)
    train, validation = files_of(text.train), files_of(text.validation)
    assert sorted(train + validation) == sorted(contents)
    assert text.num_files == 60
    assert 0.05 <= len(b"".join(validation)) / len(b"".join(contents)) <= 0.1


def test_equal_files_stay_together(tmp_path):
    contents = write_files(tmp_path)
    for idx, content in enumerate(contents):
        (tmp_path / f"copy{idx}").write_bytes(content)
    text = read_text(tmp_path)
    assert not set(files_of(text.train)) & set(files_of(text.validation))


def test_the_split_depends_on_contents_alone(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        write_files(folder)
    one, other = read_text(first), read_text(second)
    assert one.digest == other.digest
    (second / "0" / "0.txt").write_bytes(b"changed")
    assert read_text(second).digest != one.digest


def test_a_single_file_is_cut_with_a_gap(tmp_path):
    content = np.random.default_rng(0).integers(0, 256, 50_000, dtype=np.uint8).tobytes()
    path = tmp_path / "text"
    path.write_bytes(content)
    text = read_text(path)
    train, validation = text.train.tobytes(), text.validation.tobytes()
    assert content.startswith(train)
    assert content.endswith(validation)
    assert len(validation) == 2500
    assert len(content) - len(train) - len(validation) == 500


def test_files_too_large_to_hold_back_are_cut(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() * 5000)
    text = read_text(tmp_path)
    assert text.validation.size == 500
    assert text.train.size < 9501


def test_hidden_files_and_empty_ones_are_left_out(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"secret")
    (tmp_path / ".hidden").write_bytes(b"secret")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_bytes(b"open " * 100)
    text = read_text(tmp_path)
    assert text.num_files == 1
    assert b"secret" not in text.train.tobytes() + text.validation.tobytes()


def test_the_standard_library_is_there_without_its_tests():
    text = read_text(None)
    assert text.source == "Python standard library"
    assert text.train.size > 5_000_000
    assert b"import unittest\n" in text.train.tobytes()
    assert text.num_files > 300


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"the text must exist; got .*nowhere"):
        read_text(tmp_path / "nowhere")
    with pytest.raises(ArgumentError, match="at least one byte; got no file in"):
        read_text(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(ArgumentError, match="at least one byte; got 1 files, all empty"):
        read_text(tmp_path)
