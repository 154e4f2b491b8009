"""Train a mixture-of-experts language model on bytes, with compressed collectives.

    python examples/train_moe.py                       # the source of Python's standard library
    python examples/train_moe.py --data PATH           # any text file or folder
    python examples/train_moe.py --steps 20 --check    # compressed and raw must agree on every bit

Runs on the GPUs of this machine, on 8 virtual CPU devices where there is none, and on several
machines or processes with --coordinator, --num-processes and --process-id. docs/training.md has
the rest. Exit codes: 0 done, 1 the check found a difference, 2 an error, 130 Ctrl-C.
"""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TextIO

import jax
import tyro
from rich.console import Console

from pallas_kernels import ZipError
from zipjax import train as engine


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train a mixture-of-experts language model on bytes, with compressed collectives."""

    train: Annotated[engine.TrainConfig, tyro.conf.arg(name="")] = field(
        default_factory=engine.TrainConfig
    )
    run: Annotated[engine.RunOptions, tyro.conf.arg(name="")] = field(
        default_factory=engine.RunOptions
    )
    data: Path | None = None
    """Text file or folder; by default the source of Python's standard library."""
    check: bool = False
    """Train twice, compressed and raw, and compare every parameter on bits. Keeps no files."""
    json: bool = False
    """Print the closing figures as JSON to stdout instead of a table."""
    coordinator: str | None = None
    """host:port of the first of several processes."""
    num_processes: int | None = None
    """How many processes there are."""
    process_id: int | None = None
    """Which of them this is, from 0."""
    cpu_devices: int | None = None
    """Virtual devices of this process where there is no GPU; 8 in all by default."""


def main(argv: list[str] | None = None) -> int:
    """Parse, run, and turn what goes wrong into one line and an exit code."""
    try:
        options = tyro.cli(Options, args=argv)
        engine.set_up_devices(
            coordinator=options.coordinator,
            num_processes=options.num_processes,
            process_id=options.process_id,
            num_cpu_devices=options.cpu_devices,
        )
        with engine.stdout_for_data() as out:
            return (check if options.check else run)(options, out)
    except ZipError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def run(options: Options, out: TextIO) -> int:
    """Train once, keep everything, and say how it went."""
    text = engine.read_text(options.data)
    mesh = engine.make_train_mesh(options.train.model.num_experts)
    _say(options, _opening(options, text, mesh))
    outcome = engine.train(options.train, text, mesh, options.run)
    if jax.process_index() == 0:
        _keep(options, text, outcome)
        _close(options, out, outcome)
    return 128 + outcome.signal if outcome.signal else 0


def check(options: Options, out: TextIO) -> int:
    """Train compressed, then raw, and compare."""
    text = engine.read_text(options.data)
    mesh = engine.make_train_mesh(options.train.model.num_experts)
    _say(options, _opening(options, text, mesh))
    keep_nothing = replace(options.run, out=None, resume=False)
    outcomes = {}
    for codec in ("exponent", None):
        _say(options, f"{'Compressed' if codec else 'Raw'}:")
        config = replace(options.train, codec=codec)
        outcomes[codec] = engine.train(config, text, mesh, keep_nothing)
        if outcomes[codec].signal:
            return 128 + outcomes[codec].signal
    found = engine.compare_states(outcomes["exponent"].state, outcomes[None].state)
    if jax.process_index() == 0:
        _close(options, out, outcomes["exponent"], found)
    return 0 if found.identical else 1


def _opening(options: Options, text: engine.Text, mesh: jax.sharding.Mesh) -> str:
    shape = " x ".join(f"{size} {axis}" for axis, size in mesh.shape.items())
    kind = next(iter(mesh.devices.flat)).device_kind
    return (
        f"{text.source}: {text.num_files:,} files, {text.train.size / 1e6:.1f} MB to learn from, "
        f"{text.validation.size / 1e6:.2f} MB held back; {mesh.size} devices ({kind}), {shape}"
    )


def _keep(options: Options, text: engine.Text, outcome: engine.Outcome) -> None:
    """Write the loss curve, and the config beside it."""
    out = options.run.out
    if out is None:
        return
    stored = options.train.to_json() | {"data": text.source, "text_digest": text.digest}
    (out / "config.json").write_text(json.dumps(stored, indent=2) + "\n")
    if outcome.records:
        title = f"Mixture of experts on {text.source}"
        engine.plot_losses(outcome.records, out / "loss.png", title=title)
    _say(options, f"Wrote metrics.jsonl, loss.png, config.json and checkpoints to {out}")


def _close(
    options: Options,
    out: TextIO,
    outcome: engine.Outcome,
    found: engine.Comparison | None = None,
) -> None:
    """Print the closing table, and what the check found."""
    tokens_per_step = options.train.batch * options.train.length
    if options.json:
        figures = engine.summary(outcome, tokens_per_step=tokens_per_step)
        if found is not None:
            figures["bit_identical"] = found.identical
            figures["differing"] = found.differing
        print(json.dumps(figures), file=out)
        return
    if options.run.quiet:
        return
    console = Console(file=out)
    console.print(engine.closing_table(outcome, tokens_per_step=tokens_per_step))
    if found is not None:
        console.print(found.sentence(steps=outcome.last_step))


def _say(options: Options, line: str) -> None:
    if not options.run.quiet and jax.process_index() == 0:
        print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
