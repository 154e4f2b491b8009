"""Which experts a token goes to, as the published models choose them."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from parallel.moe import Routing
from zipjax.models.causal_config import SparseConfig


def choose_experts(
    logits: Float[Array, "T E"], correction: Float[Array, " E"] | None, config: SparseConfig
) -> Routing:
    """The `num_selected` experts of every token and what each counts.

    Args:
        logits: float32 [T, E].
        correction: float32 [E], added to the sigmoid for the choice alone; None for softmax.
        config: how to score and choose.

    Returns:
        expert_idx int32 [T, k], weights float32 [T, k], probs float32 [T, E] (the scores).
    """
    if config.scoring == "softmax":
        scores = jax.nn.softmax(logits, axis=-1)
        preference = scores
    else:
        scores = jax.nn.sigmoid(logits)
        preference = scores if correction is None else scores + correction[None]
        preference = _inside_best_groups(preference, config)
    _, expert_idx = lax.top_k(preference, config.num_selected)
    weights = jnp.take_along_axis(scores, expert_idx, axis=-1)
    if config.normalized:
        tiny = 0.0 if config.scoring == "softmax" else 1e-20
        weights = weights / (weights.sum(axis=-1, keepdims=True) + tiny)
    return Routing(expert_idx.astype(jnp.int32), config.scale * weights, scores)


def _inside_best_groups(
    preference: Float[Array, "T E"], config: SparseConfig
) -> Float[Array, "T E"]:
    """-inf outside the groups whose two best experts sum to most (DeepSeek-V3, section 2.1.2)."""
    if config.num_groups == 1:
        return preference
    groups = preference.reshape(preference.shape[0], config.num_groups, -1)
    best = lax.top_k(groups, min(2, groups.shape[-1]))[0].sum(axis=-1)
    _, chosen = lax.top_k(best, config.num_groups_selected)
    kept = jax.nn.one_hot(chosen, config.num_groups, dtype=bool).any(axis=1)
    return jnp.where(kept[:, :, None], groups, -jnp.inf).reshape(preference.shape)
