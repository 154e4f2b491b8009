"""Ctrl-C and SIGTERM end a run after the step at hand, not in the middle of it."""

import signal
import threading
from types import FrameType
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

# With several processes the wish to stop must be agreed on, or the others would wait for ever.
AGREE_EVERY_STEPS = 5


class Interrupts:
    """A context in which the first signal is a wish and the second one is an order."""

    def __init__(self):
        """Nothing has been wished for."""
        self._signal = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signal = number
        signal.signal(number, self._previous[number])

    def wish(self, step: int) -> int:
        """The signal that any process got, 0 for none.

        Args:
            step: steps done; every process must ask at the same steps.
        """
        if jax.process_count() == 1:
            return self._signal
        if step % AGREE_EVERY_STEPS:
            return 0
        return int(multihost_utils.process_allgather(np.int32(self._signal)).max())
