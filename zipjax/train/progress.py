"""What a run says while it goes: a bar on a terminal, a line now and then elsewhere."""

import sys
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

NUM_LINES = 10  # without a terminal


class Reporter(Protocol):
    """Hears of every step and of everything worth a line."""

    def say(self, line: str) -> None:
        """Print one line."""

    def update(self, step: int, line: str) -> None:
        """Hear that so many steps are done, and how they went."""

    def close(self) -> None:
        """Say nothing any more."""


def make_reporter(*, first: int, steps: int, silent: bool) -> Reporter:
    """Choose by what stderr is.

    Args:
        first: steps that are done already.
        steps: steps in all.
        silent: say nothing at all, as processes other than the first do.
    """
    if silent:
        return Silent()
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        return Bar(console, first=first, steps=steps)
    return Lines(first=first, steps=steps)


class Silent:
    """Says nothing."""

    def say(self, line: str) -> None:
        """Ignore it."""

    def update(self, step: int, line: str) -> None:
        """Ignore it."""

    def close(self) -> None:
        """Nothing to close."""


class Lines:
    """One line each tenth of the way."""

    def __init__(self, *, first: int, steps: int):
        """Remember how far the run is."""
        self._steps = steps
        self._tenth = first * NUM_LINES // steps

    def say(self, line: str) -> None:
        """Print it to stderr."""
        print(line, file=sys.stderr, flush=True)

    def update(self, step: int, line: str) -> None:
        """Print the line if another tenth is done."""
        tenth = step * NUM_LINES // self._steps
        if tenth > self._tenth:
            self._tenth = tenth
            self.say(f"step {step}/{self._steps}: {line}")

    def close(self) -> None:
        """Nothing to close."""


class Bar:
    """A progress bar with the newest figures beside it."""

    def __init__(self, console: Console, *, first: int, steps: int):
        """Draw the bar."""
        self._bar = Progress(
            TextColumn("step {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task("", total=steps, completed=first)
        self._bar.start()

    def say(self, line: str) -> None:
        """Print the line above the bar."""
        self._bar.console.print(line, highlight=False, markup=False)

    def update(self, step: int, line: str) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=step, description=line)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.stop()
