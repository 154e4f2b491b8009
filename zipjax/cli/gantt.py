"""A timeline as a picture for people: a row for each resource, a colour for each kind of task."""

from io import BytesIO

from parallel.planner import Timeline

_COLOURS = ("#3b6fb6", "#d1495b", "#66a182", "#edae49", "#7d5ba6", "#30638e", "#8d99ae", "#f4a261")
_INK = "#3a3a3a"


def draw_timeline(timeline: Timeline, *, title: str, end_s: float) -> bytes:
    """Draw what runs before `end_s` as a PNG.

    Args:
        timeline: of a plan.
        title: one line above it.
        end_s: where the picture ends, in seconds.
    """
    # Matplotlib takes half a second to import; only those who draw pay for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    spans = [span for span in timeline.spans if span.end_s > span.start_s and span.start_s < end_s]
    rows = list(dict.fromkeys(span.resource for span in spans))
    colours = dict(zip(dict.fromkeys(_kind(span.name) for span in spans), _cycle(), strict=False))
    figure = Figure(figsize=(11, 1.4 + 0.6 * len(rows)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for span in spans:
        axes.broken_barh(
            [(span.start_s * 1e3, (span.end_s - span.start_s) * 1e3)],
            (rows.index(span.resource) - 0.4, 0.8),
            facecolor=colours[_kind(span.name)],
            edgecolor="white",
            linewidth=0.5,
        )
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, end_s * 1e3)
    axes.set_xlabel("milliseconds")
    axes.set_title(title, loc="left", color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=colour, label=kind) for kind, colour in colours.items()]
    axes.legend(handles=handles, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _kind(name: str) -> str:
    """The task's name without the number of its chunk or layer."""
    return name.rstrip("0123456789. ")


def _cycle() -> list[str]:
    return [*_COLOURS, *_COLOURS]
