"""Ways to start `examples/train_moe.py`, and a run that takes seconds."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "train_moe.py"

TINY = (
    "--batch=8 --length=16 --eval-batches=1 --model.width=16 --model.num-layers=2 "
    "--model.num-heads=2 --model.num-kv-heads=1 --model.head-dim=8 --model.expert-hidden=16"
).split()


def load_script() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("train_moe", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_moe"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def start(*arguments: str, **options) -> subprocess.Popen:
    """Start it in a process of its own, where it has eight devices."""
    command = [sys.executable, str(SCRIPT), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, **options)
