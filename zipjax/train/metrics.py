"""Metrics as JSON lines, one per step, written as the run goes."""

import json
from pathlib import Path


class MetricsFile:
    """Appends records to a file; a resumed run forgets what was written after its checkpoint."""

    def __init__(self, path: Path | None, *, after_step: int = 0):
        """Open the file, and keep the records of steps up to `after_step`.

        Args:
            path: of the file; None keeps the records in memory only.
            after_step: steps that are done; 0 starts anew.
        """
        self.records: list[dict] = []
        self._file = None
        if path is None:
            return
        if after_step and path.exists():
            self.records = [r for r in _read_records(path) if r["step"] <= after_step]
        self._file = path.open("w", encoding="utf-8")
        for record in self.records:
            self._file.write(_line(record))

    def add(self, record: dict) -> None:
        """Append one record, whose "step" counts steps done."""
        self.records.append(record)
        if self._file is not None:
            self._file.write(_line(record))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _line(record: dict) -> str:
    return json.dumps(record) + "\n"


def _read_records(path: Path) -> list[dict]:
    """Every whole record; a crash may have left half a line at the end."""
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return records
