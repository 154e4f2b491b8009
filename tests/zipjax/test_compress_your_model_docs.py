"""The commands and the Python of docs/compress_your_model.md run, on a model of random bytes."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest

from tests.zipjax.model_cases import CASES
from tests.zipjax.serve_cases import write_folder
from zipjax.cli import main

DOC = Path(__file__).parents[2] / "docs" / "compress_your_model.md"


@pytest.mark.slow
def test_the_walk_through_runs(tmp_path, monkeypatch, capsys):
    feed_forward = CASES["llama-tied"].feed_forward[:1]
    sizes = {"width": 128, "vocab_size": 256, "windows": (None,), "feed_forward": feed_forward}
    write_folder(tmp_path / "model", dataclasses.replace(CASES["llama-tied"], **sizes))
    monkeypatch.chdir(tmp_path)
    text = DOC.read_text(encoding="utf-8")

    commands = re.findall(r"^\$ zipjax (.*)$", text, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        assert main(shlex.split(command)) == 0, command
    same = [Path(name, "model.safetensors").read_bytes() for name in ("model", "back")]
    assert same[0] == same[1]
    said = capsys.readouterr()
    assert "identical: all 10,240 logits of 40 steps on bits, and the same tokens" in said.err

    generating, casting = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for block in (generating, casting):
        exec(compile(block, str(DOC), "exec"), {})
    printed = capsys.readouterr().out
    dtypes = re.findall(r"^\| (\w+) \| 0\.\d{3} \| \d of \d+", text, re.MULTILINE)
    assert len(dtypes) == 5
    for dtype in dtypes:
        (ratio,) = re.findall(rf"^{dtype} +(0\.\d+)$", printed, re.MULTILINE)
        assert float(ratio) < 1
