"""What docs/kernels.md shows is what happens."""

import re
from pathlib import Path

from pallas_kernels import H200, MatmulShape, decode_first_rows, dtype_from_name
from pallas_kernels.ops.decode import api as decode_api
from pallas_kernels.ops.decode_matmul import api as decode_matmul_api
from pallas_kernels.ops.decode_rows import api as decode_rows_api
from pallas_kernels.ops.grouped_decode_matmul import api as grouped_api

TEXT = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text("utf-8")


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.setenv("ZIPJAX_TUNING_DIR", str(tmp_path))
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        names["head"] = names.get("weight")
        exec(compile(block, "docs/kernels.md", "exec"), names)


def test_the_backends_are_those_of_the_code():
    for op, api in (
        ("decode", decode_api),
        ("decode_rows", decode_rows_api),
        ("decode_matmul", decode_matmul_api),
        ("grouped_decode_matmul", grouped_api),
    ):
        row = re.search(rf"^\| `{op}\(.*\| (.*?) \|$", TEXT, re.MULTILINE)
        assert row is not None
        assert re.findall(r"`(\w+)`", row[1]) == list(api._BACKENDS)


def test_the_threshold_is_the_formulas():
    shape = MatmulShape(rows=1, depth=4096, num_out=4096, dtype=dtype_from_name("bfloat16"))
    assert f"plainly: {decode_first_rows(H200, shape)} on an H200" in TEXT
