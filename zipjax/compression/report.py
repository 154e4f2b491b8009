"""What `compress_model` did and what it left, and why: for people and for programs."""

import dataclasses
import re
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportRow:
    """One parameter.

    Attributes:
        path: where it is first found in the model, such as "layers.3.mlp.up.kernel".
        layer: name of the class of the layer that it belongs to.
        dtype: name of its dtype.
        shape: of the whole array.
        raw_nbytes: bytes uncompressed.
        nbytes: bytes now.
        compressed: whether it is compressed now.
        reason: why it was left; of a compressed one what else there is to say, mostly nothing.
    """

    path: str
    layer: str
    dtype: str
    shape: tuple[int, ...]
    raw_nbytes: int
    nbytes: int
    compressed: bool
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class CompressionReport:
    """What was done to a model; `print` shows the table.

    Attributes:
        rows: one for each parameter and other variable, in the order of the model.
    """

    rows: tuple[ReportRow, ...]

    @property
    def raw_nbytes(self) -> int:
        """Bytes of all variables uncompressed."""
        return sum(row.raw_nbytes for row in self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all variables now."""
        return sum(row.nbytes for row in self.rows)

    @property
    def ratio(self) -> float:
        """Compressed over uncompressed bytes; 1 for a model without variables."""
        return self.nbytes / self.raw_nbytes if self.raw_nbytes else 1.0

    @property
    def left(self) -> tuple[ReportRow, ...]:
        """The rows of what was left."""
        return tuple(row for row in self.rows if not row.compressed)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON holds it."""
        rows = [dataclasses.asdict(row) | {"shape": list(row.shape)} for row in self.rows]
        return {"raw_nbytes": self.raw_nbytes, "nbytes": self.nbytes, "rows": rows}

    def table(self) -> str:
        """One line for each kind of parameter: numbers in paths are folded into `*`."""
        groups: dict[tuple, list[ReportRow]] = {}
        for row in self.rows:
            key = (_fold(row.path), row.layer, row.dtype, row.shape, row.compressed, row.reason)
            groups.setdefault(key, []).append(row)
        lines = [_cells(key[0], rows) for key, rows in groups.items()]
        header = ("parameter", "count", "array", "bytes", "now", "ratio", "")
        return "\n".join([*_align([header, *lines]), self.summary()])

    def summary(self) -> str:
        """One sentence."""
        num_compressed = len(self.rows) - len(self.left)
        return (
            f"Compressed {num_compressed} of {len(self.rows)} tensors, "
            f"{_size(self.raw_nbytes)} to {_size(self.nbytes)} ({self.ratio:.3f})"
        )

    def __str__(self) -> str:
        return self.table()


def _fold(path: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", path)


def _cells(path: str, rows: list[ReportRow]) -> tuple[str, ...]:
    raw, now = sum(row.raw_nbytes for row in rows), sum(row.nbytes for row in rows)
    first = rows[0]
    what = first.reason if first.compressed else f"left: {first.reason}"
    array = f"{first.dtype}[{','.join(map(str, first.shape))}]"
    ratio = f"{now / raw:.3f}" if raw else "-"
    return path or "(the model)", str(len(rows)), array, _size(raw), _size(now), ratio, what


def _align(lines: list[tuple[str, ...]]) -> list[str]:
    """Columns under each other: text to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    is_figure = (False, True, False, True, True, True, False)
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_figure, strict=True)
        ).rstrip()
        for line in lines
    ]


def _size(nbytes: int) -> str:
    """Decimal units, as file sizes are given."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} B"
