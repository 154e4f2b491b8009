"""The loss curve of a run, for people."""

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

_TRAIN, _VALIDATION, _INK = "#3b6fb6", "#d1495b", "#3a3a3a"


def plot_losses(records: Sequence[dict], path: Path, *, title: str) -> None:
    """Draw training and validation loss by step into a PNG file.

    Args:
        records: as in the metrics file.
        path: of the picture.
        title: one line above it.
    """
    # Matplotlib takes half a second to import; only those who draw pay for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps = [record["step"] for record in records]
    losses = [record["loss"] for record in records]
    axes.plot(steps, losses, color=_TRAIN, alpha=0.25, linewidth=1)
    axes.plot(steps, _smooth(losses), color=_TRAIN, linewidth=2, label="training (smoothed)")
    seen = [(r["step"], r["validation_loss"]) for r in records if "validation_loss" in r]
    if seen:
        axes.plot(*zip(*seen, strict=True), "o-", color=_VALIDATION, label="validation")
        axes.annotate(
            f"{seen[-1][1]:.3f}",
            seen[-1],
            textcoords="offset points",
            xytext=(-4, 10),
            ha="right",
            color=_VALIDATION,
        )
    axes.set_title(title, loc="left", color=_INK)
    axes.set_xlabel("step")
    axes.set_ylabel("loss, nats per byte")
    bits = axes.secondary_yaxis("right", functions=(_to_bits, _to_nats))
    bits.set_ylabel("bits per byte")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path)


def _to_bits(nats: Any) -> Any:
    return nats / log(2)


def _to_nats(bits: Any) -> Any:
    return bits * log(2)


def _smooth(values: Sequence[float]) -> list[float]:
    """Mean over the neighbours, 4 % of the run."""
    reach = len(values) // 50
    windows = (values[max(i - reach, 0) : i + reach + 1] for i in range(len(values)))
    return [sum(window) / len(window) for window in windows]
