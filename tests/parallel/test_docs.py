"""The example on the page about collectives runs as printed."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "collectives.md"


def test_example_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "all_gather (backward)" in result.stdout
