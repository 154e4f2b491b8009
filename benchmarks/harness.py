"""What every benchmark does alike: its arguments, fair timing, the report and the bars."""

import argparse
import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

# Without these XLA on CPU faults its outputs' pages in on every call (docs/performance.md).
MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}

STDOUT = Path("-")


@dataclasses.dataclass(frozen=True)
class Bar:
    """A figure that was promised: `value` must be at least (`>=`) or at most (`<=`) `want`."""

    name: str
    value: float
    sense: str
    want: float

    @property
    def holds(self) -> bool:
        """Whether it is kept."""
        return self.value >= self.want if self.sense == ">=" else self.value <= self.want


def arguments(description: str) -> argparse.ArgumentParser:
    """The flags that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="write the result there; without FILE to stdout, and the table to stderr",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar does not hold")
    parser.add_argument("--quick", action="store_true", help="small: does it work, not how fast")
    parser.add_argument(
        "--malloc", choices=("tuned", "default"), default="tuned", help="glibc settings, for all"
    )
    return parser


def on_one_core(malloc: str) -> None:
    """Start this program again on one core with the allocator's settings, unless it runs so."""
    want = MALLOC if malloc == "tuned" else {}
    core = min(os.sched_getaffinity(0))
    is_set = all(os.environ.get(name) == want.get(name) for name in MALLOC)
    if is_set and os.sched_getaffinity(0) == {core}:
        return
    os.sched_setaffinity(0, {core})
    rest = {name: value for name, value in os.environ.items() if name not in MALLOC}
    os.execve(sys.executable, [sys.executable, *sys.argv], rest | want)


def interleaved_ms(
    calls: Mapping[str, Callable[[Any], Any]],
    rounds: int,
    *,
    fixed: Mapping[str, Any],
    prepare: Mapping[str, Callable[[], Any]] | None = None,
) -> dict[str, float]:
    """Median milliseconds of each call, every round timing all of them once; one warm-up round.

    Args:
        calls: what is timed, by name.
        rounds: how often.
        fixed: the argument of a call, the same in every round.
        prepare: makes the argument anew before each call, outside the timing.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds + 1):
        for name, call in calls.items():
            operand = prepare[name]() if prepare and name in prepare else fixed[name]
            start = time.perf_counter()
            call(operand)
            if turn:
                times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(taken) for name, taken in times.items()}


def machine() -> dict[str, Any]:
    """What it ran on."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cores_used": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "malloc": "tuned" if os.environ.get("MALLOC_MMAP_MAX_") == "0" else "default",
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions, Python's included."""
    found = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def report(
    title: str,
    columns: Mapping[str, str],
    rows: list[dict[str, Any]],
    bars: list[Bar],
    packages: Iterable[str],
    args: argparse.Namespace,
    extra: Mapping[str, Any] | None = None,
) -> int:
    """Print one table and the bars, write the JSON, and give the exit code.

    Args:
        title: of the table.
        columns: heading and format of each column, e.g. {"ms": ".2f"}; text has the format "".
        rows: what the columns show.
        bars: figures that were promised.
        packages: whose versions belong to the result.
        args: from `arguments`.
        extra: more that belongs into the JSON, by name.
    """
    result = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": machine(),
        "versions": versions(packages),
        "rows": rows,
        "bars": [dataclasses.asdict(bar) | {"holds": bar.holds} for bar in bars],
        **(extra or {}),
    }
    text = json.dumps(result, indent=1) + "\n"
    if args.json == STDOUT:
        sys.stdout.write(text)
    elif args.json:
        args.json.write_text(text)
    with contextlib.redirect_stdout(sys.stderr if args.json == STDOUT else sys.stdout):
        print(f"\n{title}")
        print(", ".join(f"{key} {value}" for key, value in result["machine"].items()))
        print(", ".join(f"{key} {value}" for key, value in result["versions"].items()))
        _print_table(columns, rows)
        for bar in bars:
            word = "holds" if bar.holds else "DOES NOT HOLD"
            print(f"{bar.name}: {bar.value:.3g}, wanted {bar.sense} {bar.want:g}: {word}")
    return int(args.strict and not all(bar.holds for bar in bars))


def _print_table(columns: Mapping[str, str], rows: list[dict[str, Any]]) -> None:
    cells = [list(columns)]
    for row in rows:
        values = [(row.get(name), kind) for name, kind in columns.items()]
        cells.append(["-" if value is None else format(value, kind) for value, kind in values])
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        aligned = (
            cell.rjust(width) if kind else cell.ljust(width)
            for cell, width, kind in zip(line, widths, columns.values(), strict=True)
        )
        print("  ".join(aligned).rstrip())


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    return found.stdout.strip() or "unknown"
