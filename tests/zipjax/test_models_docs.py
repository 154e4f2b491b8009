"""What docs/models.md shows is what happens."""

import re
from pathlib import Path

from zipjax.models.hf_config import ARCHITECTURES
from zipjax.models.placement import BY_COLUMNS, BY_ROWS

DOC = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")


def test_the_loading_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = re.search(r"<!-- example: loading -->\n```python\n(.*?)```", DOC, re.DOTALL)
    assert block is not None
    exec(compile(block[1], "docs/models.md", "exec"), {})


def test_every_architecture_is_described():
    assert re.findall(r"^\| `(\w+)` \| (?:grouped|latent)", DOC, re.MULTILINE) == list(
        ARCHITECTURES
    )


def test_every_rule_of_placement_is_described():
    for kinds, how in ((BY_COLUMNS, "by columns"), (BY_ROWS, "by rows")):
        (row,) = re.findall(rf"^\| (.*) \| `tensor`, {how} \|$", DOC, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", row)) == kinds
