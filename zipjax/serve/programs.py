"""The two programs of a text: one that reads a piece of the prompts, and one that adds a token."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from zipjax.models import Cache, CausalLM
from zipjax.serve.placement import Places
from zipjax.serve.prompts import Chunk
from zipjax.serve.sampling import Draw, choose_tokens

_NUM_KEPT = 8  # Models whose programs are kept.


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Frontier:
    """The newest token of each sequence, not in the cache yet.

    Attributes:
        tokens: int32 [B]; -1 where the logits were not all numbers.
        positions: int32 [B], where they stand.
        is_done: bool [B], whether this token, or one before, ended the sequence.
        logits: float32 [B, V], what the tokens were chosen from.
    """

    tokens: Int[Array, " B"]
    positions: Int[Array, " B"]
    is_done: Bool[Array, " B"]
    logits: Float[Array, "B V"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Choice:
    """What decides the next token: `draw` and the tokens that end a text, int32 [S]."""

    draw: Draw | None
    stop_tokens: Int[Array, " S"]


@dataclass(frozen=True)
class Programs:
    """Of one kind of model; compiled once for each shape of batch, chunk and cache."""

    prefill: Callable[..., tuple[Cache, Frontier]]
    step: Callable[..., tuple[Cache, Frontier]]


@lru_cache(maxsize=_NUM_KEPT)
def programs(graphdef: nnx.GraphDef, treedef: Any, places: Places | None = None) -> Programs:
    """The programs of models of a structure; they take the weights as a list of arrays.

    Args:
        graphdef: of the model.
        treedef: of its state, so that a call has nothing to flatten but a list.
        places: of the cache, for a model on a mesh.
    """

    def model_of(weights: list[jax.Array]) -> CausalLM:
        return nnx.merge(graphdef, jax.tree.unflatten(treedef, weights))

    def kept(cache: Cache, frontier: Frontier) -> tuple[Cache, Frontier]:
        return (cache, frontier) if places is None else places.keep((cache, frontier))

    def prefill(
        weights: list[jax.Array],
        cache: Cache,
        frontier: Frontier,
        chunk: Chunk,
        choice: Choice,
    ) -> tuple[Cache, Frontier]:
        """Read a chunk; the sequences that end in it get their first token."""
        model = model_of(weights)
        logits, cache = _call(model, chunk.tokens, chunk.positions, cache, chunk.last)
        logits = jnp.where(chunk.ends[:, None], logits, frontier.logits)
        return kept(cache, _choose(logits, frontier.positions, jnp.zeros_like(chunk.ends), choice))

    def step(
        weights: list[jax.Array], cache: Cache, frontier: Frontier, choice: Choice
    ) -> tuple[Cache, Frontier]:
        """Put the newest tokens into the cache and choose the next."""
        positions = jnp.where(frontier.is_done, -1, frontier.positions)
        tokens, column = frontier.tokens[:, None], jnp.zeros_like(frontier.tokens)
        logits, cache = _call(model_of(weights), tokens, positions[:, None], cache, column)
        return kept(cache, _choose(logits, frontier.positions + 1, frontier.is_done, choice))

    return Programs(
        prefill=jax.jit(prefill, donate_argnames="cache"),
        step=jax.jit(step, donate_argnames="cache"),
    )


def _call(
    model: CausalLM,
    tokens: Int[Array, "B T"],
    positions: Int[Array, "B T"],
    cache: Cache,
    column: Int[Array, " B"],
) -> tuple[Float[Array, "B V"], Cache]:
    logits, cache_after = model(tokens, positions=positions, cache=cache, columns=column[:, None])
    assert cache_after is not None
    return logits[:, 0], cache_after


def _choose(
    logits: Float[Array, "B V"],
    positions: Int[Array, " B"],
    is_done: Bool[Array, " B"],
    choice: Choice,
) -> Frontier:
    tokens = choose_tokens(logits, positions, choice.draw)
    ended = (tokens[:, None] == choice.stop_tokens[None]).any(axis=1)
    return Frontier(tokens, positions, is_done | ended, logits)
