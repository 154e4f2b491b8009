"""One round's slots: the static shape in which tokens stand before their experts.

A round takes `capacity` positions of every queue, so its sizes are static:

    slot [e, c] of a round  <->  position start + c of expert e's queue

`spread` fills slots from tokens and `gather_back` reads slots per assignment. Each is the
other's transpose, and both are gathers, so forward and backward give the same bits on every
backend and every run (a scatter-add does not: GPUs add in any order).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from parallel.moe.queues import Queues


class Handle(NamedTuple):
    """What the way back needs to know of the way out.

    Attributes:
        queues: this rank's queues.
        start: int32 [], the first position of the queues that travelled.
    """

    queues: Queues
    start: Int[Array, ""]


def in_round(handle: Handle, capacity: int) -> Bool[Array, " n"]:
    """Whether an assignment is part of the handle's round."""
    place = handle.queues.positions - handle.start
    return (place >= 0) & (place < capacity)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def spread(tokens: Float[Array, "T D"], handle: Handle, capacity: int) -> Float[Array, "E C D"]:
    """Put every token into the slots of its experts; slots behind the end of a queue are zero.

    Args:
        tokens: float [T, D].
        handle: queues and round.
        capacity: C, positions of every queue that a round takes.

    Returns:
        The dtype of `tokens` [E, C, D].
    """
    num_selected = handle.queues.order.size // tokens.shape[0]
    return _fill(tokens, handle, capacity, lambda assignment: assignment // num_selected)


def _spread_fwd(tokens, handle, capacity):
    # The empty array carries the static T and the dtype of `tokens` to the backward pass.
    return spread(tokens, handle, capacity), (handle, tokens[:, :0])


def _spread_bwd(capacity, saved, cotangent):
    """A token's gradient is the sum over its assignments, first choice first, in float32."""
    handle, like = saved
    rows = gather_back(cotangent, handle).astype(jnp.float32)
    per_choice = rows.reshape(like.shape[0], -1, rows.shape[-1])
    total = per_choice[:, 0]
    for choice in range(1, per_choice.shape[1]):
        total = total + per_choice[:, choice]
    return total.astype(like.dtype), None


spread.defvjp(_spread_fwd, _spread_bwd)


@jax.custom_vjp
def gather_back(slots: Float[Array, "E C D"], handle: Handle) -> Float[Array, "n D"]:
    """Read the slots of a round per assignment; zero for assignments of other rounds."""
    queues, capacity = handle.queues, slots.shape[1]
    place = jnp.clip(queues.positions - handle.start, 0, capacity - 1)
    rows = slots[queues.expert_idx, place]
    return jnp.where(in_round(handle, capacity)[:, None], rows, jnp.zeros((), rows.dtype))


def _gather_back_fwd(slots, handle):
    # The empty array carries the static capacity to the backward pass.
    return gather_back(slots, handle), (handle, slots[0, :, :0])


def _gather_back_bwd(saved, cotangent):
    handle, like = saved
    return _fill(cotangent, handle, like.shape[0], lambda assignment: assignment), None


gather_back.defvjp(_gather_back_fwd, _gather_back_bwd)


def _fill(
    rows: jax.Array, handle: Handle, capacity: int, row_of: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Put row `row_of(assignment)` into every slot of the round: [E, C, D]."""
    queues = handle.queues
    place = handle.start + jnp.arange(capacity, dtype=jnp.int32)[None]
    taken = place < queues.counts[:, None]
    last = queues.order.size - 1
    assignment = queues.order[jnp.minimum(queues.offsets[:, None] + place, last)]
    return jnp.where(taken[..., None], rows[row_of(assignment)], jnp.zeros((), rows.dtype))
