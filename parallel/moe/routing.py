"""Which experts see which token, and how much each counts: softmax, then the k largest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from pallas_kernels.errors import ArgumentError


class Routing(NamedTuple):
    """The choices of T tokens among E experts, k each.

    Attributes:
        expert_idx: int32 [T, k], in [0, E), distinct within a row.
        weights: float32 [T, k], at least 0; a row sums to 1.
        probs: float32 [T, E], the softmax over all experts, for the balance loss.
    """

    expert_idx: Int[Array, "T k"]
    weights: Float[Array, "T k"]
    probs: Float[Array, "T E"]


def route(logits: Float[Array, "T E"], *, num_selected: int) -> Routing:
    """Choose the `num_selected` most probable experts of every token (GShard, section 3.2).

    The weights are the chosen probabilities divided by their sum. Ties go to the lower expert
    number. Gradients flow through `weights` and `probs`, not through the choice.

    Args:
        logits: float [T, E], one row per token; computed in float32 from here on.
        num_selected: k, experts per token, between 1 and E.

    Raises:
        ArgumentError: when k is not between 1 and E.
    """
    num_experts = logits.shape[-1]
    if not 1 <= num_selected <= num_experts:
        raise ArgumentError(
            f"num_selected must be between 1 and the {num_experts} experts", got=num_selected
        )
    probs = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
    _, expert_idx = lax.top_k(lax.stop_gradient(probs), num_selected)
    chosen = jnp.take_along_axis(probs, expert_idx, axis=-1)
    weights = chosen / chosen.sum(axis=-1, keepdims=True)
    return Routing(expert_idx.astype(jnp.int32), weights, probs)
