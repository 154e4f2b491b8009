"""Line up assignments before their experts: index arithmetic only, no communication."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Int


class Queues(NamedTuple):
    """Every expert's queue on this rank, in order of tokens.

    Assignment `a = t * k + j` is the j-th choice of token t. With n = T * k assignments:

        order[offsets[e] + p] == a   and   positions[a] == p
            for assignment a, which stands at position p of expert e == expert_idx[a]

    Attributes:
        expert_idx: int32 [n], the expert of an assignment.
        positions: int32 [n], where it stands in that expert's queue, from 0.
        order: int32 [n], the assignments queue after queue.
        counts: int32 [E], length of every queue; sums to n.
        offsets: int32 [E], where a queue starts in `order`.
    """

    expert_idx: Int[Array, " n"]
    positions: Int[Array, " n"]
    order: Int[Array, " n"]
    counts: Int[Array, " E"]
    offsets: Int[Array, " E"]


def line_up(expert_idx: Int[Array, "T k"], *, num_experts: int) -> Queues:
    """Sort the assignments by expert; within one expert they keep the order of the tokens.

    Args:
        expert_idx: int32 [T, k], each in [0, num_experts).
        num_experts: E, over all ranks.
    """
    flat = expert_idx.reshape(-1)
    experts = jnp.arange(num_experts, dtype=jnp.int32)
    counts = jnp.sum(flat[:, None] == experts[None], axis=0, dtype=jnp.int32)
    offsets = jnp.cumsum(counts, dtype=jnp.int32) - counts
    order = jnp.argsort(flat, stable=True).astype(jnp.int32)
    ranks = (
        jnp.zeros_like(order)
        .at[order]
        .set(jnp.arange(order.size, dtype=jnp.int32), unique_indices=True)
    )
    return Queues(flat, ranks - offsets[flat], order, counts, offsets)
