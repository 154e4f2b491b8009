"""What docs/format.md and docs/cli.md show is what happens."""

import re
from pathlib import Path

import numpy as np
import pytest

import zipjax
from zipjax.cli.main import _COMMANDS
from zipjax.files import spec
from zipjax.files.parse_index import _STREAM_KEYS, _TENSOR_KEYS

DOCS = Path(__file__).parents[2] / "docs"
FORMAT = (DOCS / "format.md").read_text(encoding="utf-8")
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")


def test_the_example_in_hex_is_what_is_written(tmp_path):
    block = re.search(r"<!-- example: container -->\n```\n(.*?)\n```", FORMAT, re.DOTALL)
    assert block is not None
    rows = [re.match(r"([0-9a-f]{8})  ((?:[0-9a-f]{2} ?)+)", row) for row in block[1].splitlines()]
    data = b"".join(bytes.fromhex(row[2]) for row in rows)
    assert [int(row[1], 16) for row in rows] == list(range(0, len(data), 16))
    x = np.array([1, -2, 300], np.int16)
    zipjax.save(tmp_path / "a.zipj", {"w": x, "twin": x}, metadata={"by": "me"})
    assert (tmp_path / "a.zipj").read_bytes() == data
    assert f"{len(data)} bytes, of which 64 of header" in FORMAT


@pytest.mark.parametrize(
    "text",
    [
        spec.MAGIC.hex(" "),
        f"at most {spec.INDEX_NBYTES_MAX:,}",
        f"deeper than {spec.JSON_DEPTH_MAX} levels",
        f"at most {spec.METADATA_ENTRIES_MAX:,} texts",
        f"1 to {spec.NAME_NBYTES_MAX} bytes",
        f"at most {spec.NDIM_MAX} sizes",
        f"next multiple of {spec.CHUNK_ALIGN_NBYTES}",
    ],
)
def test_the_numbers_of_the_format_are_those_of_the_code(text):
    assert text in FORMAT


def test_every_field_of_the_index_is_described():
    for key in (*_TENSOR_KEYS, *_STREAM_KEYS, "same_as", "metadata", "tensors", "origin"):
        assert f"`{key}`" in FORMAT


def test_every_command_is_described():
    for command in _COMMANDS:
        assert re.search(rf"^\| `{command}[ `]", CLI, re.MULTILINE)


def test_the_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", CLI, re.DOTALL)
    exec(compile(block, "docs/cli.md", "exec"), {})
    assert (tmp_path / "model.zipj").exists()
