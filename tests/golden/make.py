"""`python -m tests.golden.make`: write the golden files that are not there yet; never one that is.

Bytes once released are for ever: a file here is added when the format gains something, and is never
written again. What it must decode to is kept beside it in `expected.json`.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import zipjax
from pallas_kernels import dtype_from_name
from tests.reliability import forgeries
from tests.reliability.samples import FLOAT_DTYPES, weights
from zipjax.files.checksum import tensor_digest

GOOD = Path(__file__).parent / "v1"
BAD = Path(__file__).parent.parent / "golden_bad"
EXPECTED = "expected.json"
_RAW_NAMES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float64 complex64 complex128 "
    "float8_e4m3 float8_e3m4 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
    "int4 uint4 int2 uint2"
).split()


def main() -> int:
    """Write what is missing and say what was written."""
    for folder in (GOOD, BAD):
        folder.mkdir(exist_ok=True)
    expected = _read(GOOD)
    for name, tree in good_trees().items():
        path = GOOD / f"{name}.zipj"
        if not path.exists():
            zipjax.save(path, tree, metadata={"golden": name})
            expected[path.name] = _expectation(path, tree)
            print(f"wrote {path.name}")
    _write(GOOD, expected)
    expected = _read(BAD)
    for what, data in bad_files().items():
        path = BAD / f"{what}.zipj"
        if not path.exists():
            path.write_bytes(data)
            expected[path.name] = _complaint(path)
            print(f"wrote {path.name}: {expected[path.name]}")
    _write(BAD, expected)
    return 0


def good_trees() -> dict[str, Any]:
    """What the golden containers hold: every dtype, every codec, every kind of entry."""
    rng = np.random.default_rng(20261130)
    raw = {}
    for name in _RAW_NAMES:
        dtype = dtype_from_name(name)
        integers = rng.integers(0, 2, 24).reshape(2, 3, 4)
        raw[name] = integers.astype(dtype)
    twin = weights("bfloat16", 3000)
    trees: dict[str, Any] = {
        "raw": raw,
        "empty": {},
        "corners": {
            "scalar": np.float32(-0.0),
            "none": np.zeros((0, 3), np.int8),
            "one": np.ones(1),
        },
        "tied": {"a": twin, "b": twin, "\u91cd/\u307f": twin.reshape(30, 100)},
    }
    for dtype in FLOAT_DTYPES:
        x = weights(dtype, 12_000)
        x.view(f"u{x.dtype.itemsize}")[7::500] = rng.integers(0, 1 << 8 * x.dtype.itemsize, 24)
        trees[dtype] = {"w": x.reshape(3, 4000)}
    return trees


def bad_files() -> dict[str, bytes]:
    """One of every kind of hostile container that is small enough to keep."""
    kinds = {
        "size": forgeries.hostile_sizes(),
        "range": forgeries.hostile_ranges(),
        "duplicate": forgeries.hostile_duplicates(),
        "name": forgeries.hostile_names(),
        "unknown": forgeries.unknown_values(),
    }
    files = {}
    for kind, made in kinds.items():
        for number, (_, data) in enumerate(made):
            if len(data) < 4096:
                files[f"{kind}-{number:02}"] = data
    return files


def _expectation(path: Path, tree: Any) -> dict[str, Any]:
    with zipjax.load(path) as tensors:
        contents = {
            name: {"dtype": str(x.dtype), "shape": list(x.shape), "xxh3_128": tensor_digest(x)}
            for name, x in tensors.items()
        }
    originals = {name: tensor_digest(np.asarray(x)) for name, x in tree.items()}
    assert originals == {name: item["xxh3_128"] for name, item in contents.items()}
    return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "tensors": contents}


def _complaint(path: Path) -> str:
    try:
        zipjax.verify(path)
    except zipjax.FormatError as error:
        return error.what
    raise AssertionError(f"{path.name} must be refused")


def _read(folder: Path) -> dict[str, Any]:
    path = folder / EXPECTED
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write(folder: Path, expected: dict[str, Any]) -> None:
    text = json.dumps(expected, indent=1, sort_keys=True, ensure_ascii=True)
    (folder / EXPECTED).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
