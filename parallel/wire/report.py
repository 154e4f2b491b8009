"""Raw and sent bytes per call site and mesh axis."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from parallel.wire.fallbacks import Fallbacks
from parallel.wire.site import Site

Cells = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WireRow:
    """All runs of one call site over one axis in one run of a program.

    Attributes:
        site: who calls.
        axis: mesh axis names, slowest first.
        num_messages: collectives that a device takes part in; each stream of a payload is one,
            and a `lax.scan` of n steps counts n times.
        raw_nbytes: bytes per device with codec None.
        sent_nbytes: bytes per device when every payload holds its operand.
        in_while: inside a `lax.while_loop`, whose number of rounds is not known: the figures are
            those of one round.
    """

    site: Site
    axis: tuple[str, ...]
    num_messages: int
    raw_nbytes: float
    sent_nbytes: float
    in_while: bool = False


@dataclass(frozen=True)
class WireReport:
    """What a program sends in one run, per device: lower bounds of ring or direct exchange.

    Totals leave out rows in while loops, whose number of rounds is not known.

    Attributes:
        rows: by falling raw bytes.
    """

    rows: tuple[WireRow, ...]

    @property
    def raw_nbytes(self) -> float:
        """Bytes per device with codec None."""
        return sum(row.raw_nbytes for row in self.rows if not row.in_while)

    @property
    def sent_nbytes(self) -> float:
        """Bytes per device when every payload holds its operand."""
        return sum(row.sent_nbytes for row in self.rows if not row.in_while)

    def by_axis(self) -> dict[tuple[str, ...], "WireReport"]:
        """One report per mesh axis (or tuple of axes)."""
        axes = sorted({row.axis for row in self.rows})
        return {axis: WireReport(tuple(r for r in self.rows if r.axis == axis)) for axis in axes}

    def run_nbytes(self, num_runs: int, fallbacks: Fallbacks, *, num_devices: int) -> float:
        """Bytes sent per device in a run of the program's life, raw fallbacks included.

        Args:
            num_runs: how often the program ran.
            fallbacks: what `record_fallbacks` counted meanwhile.
            num_devices: how many devices of this process took part.
        """
        return num_runs * self.sent_nbytes + fallbacks.extra_nbytes() / num_devices

    def table(self) -> str:
        """The rows for people, with a total."""
        lines: list[Cells] = [("call site", "axis", "messages", "raw MB", "sent MB", "sent/raw")]
        lines += [_cells(row) for row in self.rows]
        lines.append(_line("total", "", "", self.raw_nbytes, self.sent_nbytes))
        return _aligned(lines)

    def to_dict(self) -> dict:
        """The rows and totals for machines."""
        rows = [asdict(row) for row in self.rows]
        return {"rows": rows, "raw_nbytes": self.raw_nbytes, "sent_nbytes": self.sent_nbytes}


def _cells(row: WireRow) -> Cells:
    messages = f"{row.num_messages} a round" if row.in_while else str(row.num_messages)
    return _line(str(row.site), ", ".join(row.axis), messages, row.raw_nbytes, row.sent_nbytes)


def _line(site: str, axis: str, messages: str, raw: float, sent: float) -> Cells:
    ratio = f"{sent / raw:.3f}" if raw else "-"
    return site, axis, messages, f"{raw / 1e6:.3f}", f"{sent / 1e6:.3f}", ratio


def _aligned(lines: Sequence[Cells]) -> str:
    """Names to the left, figures to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = []
    for line in lines:
        cells = [
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        rows.append("  ".join(cells).rstrip())
    return "\n".join(rows)
