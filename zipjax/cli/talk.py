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
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

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

    def text(self, text: str, *, end: str = "\n") -> None:
        """Print text for people, at once; nothing with --json or --quiet."""
        if not self._options.json and not self._options.quiet:
            print(text, end=end, flush=True)

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
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        with self._bar(doing, nbytes, columns, hidden=False) as advance:
            yield advance

    @contextmanager
    def tokens(self, doing: str, count: int) -> Iterator[Callable[[int], None]]:
        """Show a bar over `count` tokens; none where text goes to the same terminal meanwhile."""
        shares_terminal = not self._options.json and sys.stdout.isatty()
        columns = (BarColumn(), MofNCompleteColumn(), _TokensPerSecond())
        with self._bar(doing, count, columns, hidden=shares_terminal) as advance:
            yield advance

    @contextmanager
    def _bar(
        self, doing: str, total: int, columns: tuple[ProgressColumn, ...], *, hidden: bool
    ) -> Iterator[Callable[[int], None]]:
        silent = self._options.quiet or self._options.no_progress or not _is_live(self._stderr)
        with Progress(
            TextColumn("{task.description}"),
            *columns,
            console=self._stderr,
            transient=True,
            disable=hidden or silent,
        ) as progress:
            task = progress.add_task(doing, total=total)
            yield lambda num_done: progress.advance(task, num_done)


class _TokensPerSecond(ProgressColumn):
    """How fast they come."""

    def render(self, task: Task) -> Text:
        """`12.3 tokens/s`, once it is known."""
        return Text("" if task.speed is None else f"{task.speed:.1f} tokens/s")


def nbytes_text(nbytes: float) -> str:
    """A size for people: 90.9 MB, in powers of 1000 as disks are sold."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def _is_live(console: Console) -> bool:
    return sys.stderr.isatty() and not console.is_dumb_terminal
