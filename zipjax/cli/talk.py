"""What commands say: tables and JSON on stdout, progress and summaries on stderr."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from zipjax.cli.options import TalkOptions

_TABLE_WIDTH = 120  # Where stdout is no terminal, so that no name is cut for one.


class Talk:
    """A command's two voices."""

    def __init__(self, options: TalkOptions):
        """Speak as `options` say."""
        self._options = options
        self._stderr = Console(stderr=True, highlight=False)

    def table(self, table: Table) -> None:
        """Print a table for people; nothing with --json or --quiet."""
        if self._options.json or self._options.quiet:
            return
        width = None if sys.stdout.isatty() else _TABLE_WIDTH
        Console(highlight=False, width=width).print(table)

    def text(self, text: str) -> None:
        """Print text for people; nothing with --json or --quiet."""
        if not self._options.json and not self._options.quiet:
            print(text)

    def data(self, value: dict[str, Any]) -> None:
        """Print an object for machines; nothing without --json."""
        if self._options.json:
            print(json.dumps(value, indent=2, ensure_ascii=True))

    def summary(self, text: str) -> None:
        """Say in a line what was done; nothing with --quiet."""
        if not self._options.quiet:
            self._stderr.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, doing: str, nbytes: int) -> Iterator[Callable[[int], None]]:
        """Show a bar over `nbytes` bytes; gives the function that moves it on by some of them."""
        hidden = self._options.quiet or self._options.no_progress or not _is_live(self._stderr)
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=self._stderr,
            transient=True,
            disable=hidden,
        ) as progress:
            task = progress.add_task(doing, total=nbytes)
            yield lambda num_done: progress.advance(task, num_done)


def nbytes_text(nbytes: float) -> str:
    """A size for people: 90.9 MB, in powers of 1000 as disks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def _is_live(console: Console) -> bool:
    return sys.stderr.isatty() and not console.is_dumb_terminal
