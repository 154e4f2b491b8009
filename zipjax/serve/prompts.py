"""Prompts of unequal length as arrays of few different shapes, for few programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from pallas_kernels import ArgumentError

CHUNK_WIDTH_MIN = 16
CAPACITY_STEP = 64  # Capacities are multiples of it: nearly equal ones share their programs.


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chunk:
    """T columns of a batch of prompts that are padded on the right; a pytree.

    Attributes:
        tokens: int32 [B, T].
        positions: int32 [B, T], -1 for padding.
        last: int32 [B], the column of each prompt's last token, if it is in this chunk.
        ends: bool [B], whether it is.
    """

    tokens: Int[Array, "B T"]
    positions: Int[Array, "B T"]
    last: Int[Array, " B"]
    ends: Bool[Array, " B"]


def require_prompts(prompts: Sequence[Sequence[int]], vocab_size: int) -> list[np.ndarray]:
    """Each prompt as int32 [its length].

    Raises:
        ArgumentError: there is none, one is empty, or a token is no token.
    """
    if not prompts:
        raise ArgumentError("there must be at least one prompt", got="none")
    arrays = [np.asarray(prompt) for prompt in prompts]
    for idx, prompt in enumerate(arrays):
        if prompt.ndim != 1 or not prompt.size or prompt.dtype.kind not in "iu":
            raise ArgumentError(
                "every prompt must be a list of tokens, and not empty",
                got=f"prompt {idx} of shape {list(prompt.shape)} and dtype {prompt.dtype}",
                fix="begin an empty prompt with the model's start token",
            )
        if prompt.min() < 0 or prompt.max() >= vocab_size:
            wrong = prompt[(prompt < 0) | (prompt >= vocab_size)][0]
            raise ArgumentError(
                f"tokens must be in [0, {vocab_size})",
                got=f"{wrong} in prompt {idx}",
                fix="use the tokenizer of this model",
            )
    return [prompt.astype(np.int32) for prompt in arrays]


def chunk_width(longest: int, width_max: int) -> int:
    """Columns of a chunk: a power of two, enough for the longest prompt, or `width_max`."""
    width = CHUNK_WIDTH_MIN
    while width < longest:
        width *= 2
    return min(width, width_max)


def cache_capacity(longest: int, max_new_tokens: int) -> int:
    """Positions that the cache needs room for, rounded up."""
    return -(-(longest + max_new_tokens) // CAPACITY_STEP) * CAPACITY_STEP


def chunks(prompts: list[np.ndarray], width: int) -> Iterator[Chunk]:
    """The batch from left to right, `width` columns at a time."""
    lengths = np.array([prompt.size for prompt in prompts], np.int32)
    num_chunks = -(-int(lengths.max()) // width)
    tokens = np.zeros((len(prompts), num_chunks * width), np.int32)
    for row, prompt in zip(tokens, prompts, strict=True):
        row[: prompt.size] = prompt
    columns = np.arange(tokens.shape[1], dtype=np.int32)[None]
    positions = np.where(columns < lengths[:, None], columns, -1).astype(np.int32)
    for start in range(0, tokens.shape[1], width):
        inside = slice(start, start + width)
        last = lengths - 1 - start
        ends = (last >= 0) & (last < width)
        parts = tokens[:, inside], positions[:, inside], np.where(ends, last, 0), ends
        yield Chunk(*map(jnp.asarray, parts))
