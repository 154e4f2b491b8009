"""docs/planner.md: its example runs, and it names every strategy and machine."""

import re
from pathlib import Path

from parallel.planner import MACHINES, STRATEGIES

PAGE = (Path(__file__).parents[3] / "docs" / "planner.md").read_text(encoding="utf-8")


def test_the_example_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "docs/planner.md", "exec"), {})
    assert "Chosen: " in capsys.readouterr().out


def test_every_strategy_and_machine_is_named():
    for name in (*STRATEGIES, *MACHINES):
        assert f"`{name}`" in PAGE
