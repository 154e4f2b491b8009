"""The order of the text: a function of the seed and the step, so nothing has to be remembered."""

from functools import lru_cache

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from pallas_kernels import ArgumentError
from zipjax.train.config import TrainConfig
from zipjax.train.layout import BATCH_SPEC
from zipjax.train.text import Text


class Batches:
    """Windows of text by step.

    In every epoch the text is cut anew into windows, at a random offset, and they are shuffled:
    sequence n of the run is window n % num_windows of epoch n // num_windows.
    """

    def __init__(self, text: Text, config: TrainConfig):
        """Check that the text is long enough.

        Raises:
            ArgumentError: when one side has no room for a sequence and the byte after it.
        """
        shortest = min(text.train.size, text.validation.size)
        if shortest <= config.length:
            raise ArgumentError(
                f"both the text to learn from and the 5 % held back must be longer than "
                f"length={config.length}",
                got=f"{text.train.size} and {text.validation.size} bytes",
                fix="use more text or a smaller --length",
            )
        self._text = text
        self._config = config
        self.num_windows = max(1, text.train.size // config.length - 1)
        self._epoch = lru_cache(maxsize=2)(self._draw_epoch)

    def train(self, step: int) -> np.ndarray:
        """The batch of a step: uint8 [batch, length + 1], each row a window and the byte after."""
        batch, length = self._config.batch, self._config.length
        rows = np.empty((batch, length + 1), np.uint8)
        for row in range(batch):
            epoch, idx = divmod(step * batch + row, self.num_windows)
            start = self._epoch(epoch)[idx]
            rows[row] = self._text.train[start : start + length + 1]
        return rows

    def validation(self) -> np.ndarray:
        """Windows spread evenly over the text held back: uint8 [batches, batch, length + 1]."""
        config = self._config
        count = config.eval_batches * config.batch
        last = self._text.validation.size - config.length - 1
        starts = np.linspace(0, last, count).astype(np.int64)
        rows = self._text.validation[starts[:, None] + np.arange(config.length + 1)]
        return rows.reshape(config.eval_batches, config.batch, config.length + 1)

    def position(self, step: int) -> dict:
        """Where in the text a run stands after `step` steps, for the checkpoint."""
        epoch, window = divmod(step * self._config.batch, self.num_windows)
        return {"seed": self._config.seed, "epoch": epoch, "window": window}

    def _draw_epoch(self, epoch: int) -> np.ndarray:
        """Starts of the windows, shuffled: int64 [num_windows]."""
        random = np.random.default_rng([self._config.seed, epoch])
        length = self._config.length
        room = self._text.train.size - self.num_windows * length  # more than 0: __init__ checked
        offset = random.integers(min(room, length))
        return offset + random.permutation(self.num_windows) * length


def place_batch(rows: np.ndarray, mesh: Mesh) -> jax.Array:
    """Spread rows [batch, ...] that every process has over the devices of all processes."""
    sharding = NamedSharding(mesh, BATCH_SPEC)
    return jax.make_array_from_callback(rows.shape, sharding, lambda index: rows[index])
