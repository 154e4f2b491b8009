"""What docs/training.md shows is what happens."""

import re

import pytest

from tests.examples.train_moe_cases import ROOT, load_script
from tests.zipjax.train_cases import quietly, tiny_config, tiny_text
from zipjax import train as engine

DOC = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_python_example_runs(monkeypatch, capsys):
    """With two steps for a hundred, on the devices of this process."""
    monkeypatch.setattr(engine, "set_up_devices", lambda: None)
    (block,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    assert "steps=100" in block
    exec(compile(block.replace("steps=100", "steps=2"), "docs/training.md", "exec"), {})
    assert float(capsys.readouterr().out.split()[0]) > 0


def test_every_metric_is_described():
    config = tiny_config(steps=1)
    mesh = engine.make_train_mesh(config.model.num_experts)
    (record,) = engine.train(config, tiny_text(), mesh, quietly(None)).records
    for key in record:
        assert f"`{key}`" in DOC


def test_every_option_named_is_one():
    known = {"--help", "--data"} | {
        "--" + name.replace("_", "-")
        for part in (load_script().Options, engine.TrainConfig, engine.RunOptions)
        for name in part.__dataclass_fields__
    }
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", DOC)) - {"--xla"}
    assert used <= known
