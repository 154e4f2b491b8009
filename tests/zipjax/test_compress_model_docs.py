"""What docs/compress_model.md shows is what happens."""

import re
from pathlib import Path

import pytest

from zipjax.nn import TWINS

DOC = (Path(__file__).parents[2] / "docs" / "compress_model.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_examples_run_and_print_what_is_shown(tmp_path, capsys):
    """One after the other, as somebody who reads the page would run them."""
    names = {"folder": tmp_path / "checkpoint"}
    for block in re.findall(r"```python\n(.*?)```", DOC, re.DOTALL):
        exec(compile(block, "docs/compress_model.md", "exec"), names)
    shown = re.search(r"<!-- output: compress_model -->\n```\n(.*?)```", DOC, re.DOTALL)
    assert shown is not None
    assert [line.split() for line in shown[1].splitlines()] == [
        line.split() for line in capsys.readouterr().out.splitlines()
    ]


def test_every_twin_is_described():
    for plain, twin in TWINS.items():
        assert f".{plain.__name__}`" in DOC
        assert f"`{twin.cls.__name__}`" in DOC
