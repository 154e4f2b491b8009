"""The oracle: every expert sees every token on one device, and the choices are picked out."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, PyTree

from parallel.moe.routing import Routing


def mixture(
    experts: Callable[[PyTree, Float[Array, "E N D"]], Float[Array, "E N D"]],
    params: PyTree,
    tokens: Float[Array, "T D"],
    routing: Routing,
    *,
    wire_dtype: DTypeLike = jnp.bfloat16,
) -> Float[Array, "T D"]:
    """What `parallel.moe.mixture` must return, in the plainest way: E / k times the work.

    Args:
        experts: as in `mixture`, with all E experts.
        params: the parameters of all experts.
        tokens: float [T, D].
        routing: choices and weights.
        wire_dtype: the dtype in which tokens and results would travel.

    Returns:
        float32 [T, D].
    """
    num_tokens, num_experts = routing.probs.shape
    # Cast after the broadcast: gradients of a token's choices then add up in the tokens' dtype.
    seen = jnp.broadcast_to(tokens[None], (num_experts, *tokens.shape)).astype(wire_dtype)
    made = experts(params, seen).astype(wire_dtype).astype(jnp.float32)
    total = jnp.zeros((num_tokens, made.shape[-1]), jnp.float32)
    for choice in range(routing.expert_idx.shape[1]):
        rows = made[routing.expert_idx[:, choice], jnp.arange(num_tokens)]
        total = total + routing.weights[:, choice : choice + 1] * rows
    return total
