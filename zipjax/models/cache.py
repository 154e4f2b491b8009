"""What a causal model remembers of the tokens it has seen, so that each is computed once."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Int

from zipjax.models.causal_config import CausalConfig, GroupedConfig

LayerCache = dict[str, jax.Array]
"""What one layer keeps, each [B, S, ...]: `key` and `value` [B, S, K, D] of grouped attention,
or `latent` [B, S, R] and `rope_key` [B, S, D] of latent attention. Slot s holds position s."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """The memory of B sequences with room for S tokens each; a pytree.

    Slot s of a sequence holds what the model computed at its position s, so sequences of unequal
    length need no shifting: each has its own `num_written`.

    Attributes:
        layers: see `LayerCache`.
        num_written: int32 [B], the position after the last one written: that of the next token.
    """

    layers: tuple[LayerCache, ...]
    num_written: Int[Array, " B"]

    @property
    def capacity(self) -> int:
        """S, the number of positions that there is room for."""
        return next(iter(self.layers[0].values())).shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self))


class Step(NamedTuple):
    """Where the tokens of one call stand; made once, used by every layer.

    Attributes:
        slots: int32 [B, T], where to write each token; S, which is nowhere, for padding.
        visible: window (None for all) -> bool [B, T, S], which slots a token sees.
    """

    slots: Int[Array, "B T"]
    visible: dict[int | None, Bool[Array, "B T S"]]


def empty_cache(
    config: CausalConfig, batch_size: int, capacity: int, *, dtype: DTypeLike | None = None
) -> Cache:
    """A cache that has seen nothing.

    Args:
        config: of the model.
        batch_size: B.
        capacity: S, the positions that there is room for: prompt and what is generated.
        dtype: dtype of the entries; by default that of the computation.
    """
    dtype = jnp.dtype(dtype or config.dtype)
    shapes = {name: (batch_size, capacity, *shape) for name, shape in _entry_shapes(config).items()}
    layers = tuple(
        {name: jnp.zeros(shape, dtype) for name, shape in shapes.items()}
        for _ in range(config.num_layers)
    )
    return Cache(layers, jnp.zeros(batch_size, jnp.int32))


def cache_nbytes(config: CausalConfig, num_tokens: int) -> int:
    """Bytes that a cache takes for so many tokens over all sequences."""
    elems = sum(math.prod(shape) for shape in _entry_shapes(config).values())
    return elems * num_tokens * config.num_layers * jnp.dtype(config.dtype).itemsize


def write(store: jax.Array, new: jax.Array, slots: Int[Array, "B T"]) -> jax.Array:
    """`store` [B, S, ...] with `new` [B, T, ...] in its slots; what has none is left out."""
    rows = jnp.arange(store.shape[0])[:, None]
    return store.at[rows, slots].set(new.astype(store.dtype), mode="drop")


def make_step(
    positions: Int[Array, "B T"], num_slots: int | None, windows: tuple[int | None, ...]
) -> Step:
    """The `Step` of tokens at `positions`; negative ones are padding.

    Args:
        positions: int32 [B, T].
        num_slots: S of the cache; None without one, where slot t is token t of this call.
        windows: of all layers.
    """
    if num_slots is None:
        slot_positions = positions
        slots = jnp.broadcast_to(jnp.arange(positions.shape[1])[None], positions.shape)
    else:
        slot_positions = jnp.arange(num_slots)[None]
        slots = jnp.where(positions < 0, num_slots, positions)
    distance = positions[:, :, None] - slot_positions[:, None, :]
    seen = (distance >= 0) & (slot_positions >= 0)[:, None, :]
    return Step(slots, {window: _inside(seen, distance, window) for window in set(windows)})


def _inside(seen: jax.Array, distance: jax.Array, window: int | None) -> jax.Array:
    return seen if window is None else seen & (distance < window)


def _entry_shapes(config: CausalConfig) -> dict[str, tuple[int, ...]]:
    attention = config.attention
    if isinstance(attention, GroupedConfig):
        shape = (attention.num_kv_heads, attention.head_dim)
        return {"key": shape, "value": shape}
    return {"latent": (attention.latent_rank,), "rope_key": (attention.rope_dim,)}
