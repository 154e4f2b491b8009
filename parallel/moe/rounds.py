"""The rounds after the first: as many as the longest queue needs, none when all fitted.

A loop over a data-dependent number of rounds has no reverse-mode derivative of its own, so the
backward pass is written here: a second loop that repeats each round and adds its gradients.
Memory does not grow with the number of rounds, and there is no largest number of them.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from parallel.collectives.axes import AxisName
from parallel.moe.queues import Queues
from parallel.moe.slots import Handle, in_round


class Schedule(NamedTuple):
    """Positions of every queue that the rounds take.

    Attributes:
        first: in round 0.
        later: in every further round; smaller, so that a short overflow costs little.
    """

    first: int
    later: int


def longest_queue(queues: Queues, *, axis_name: AxisName | None = None) -> jax.Array:
    """int32 [], the longest queue of any rank."""
    longest = queues.counts.max()
    return longest if axis_name is None else lax.pmax(longest, axis_name)


def num_rounds(longest: jax.Array, schedule: Schedule) -> jax.Array:
    """int32 [], rounds until a queue of this length is empty; at least 1."""
    return 1 + jnp.maximum(-(-(longest - schedule.first) // schedule.later), 0)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def later_rounds(
    one_round: Callable,
    schedule: Schedule,
    params: PyTree,
    tokens: jax.Array,
    rows: jax.Array,
    queues: Queues,
    longest: jax.Array,
) -> jax.Array:
    """Run the rounds after the first, and put their rows where it left zeros.

    Args:
        one_round: `(params, tokens, queues, start) -> rows` for `schedule.later` positions.
        schedule: how many positions a round takes.
        params: the experts' parameters.
        tokens: float [T, D].
        rows: float [n, D], what round 0 gave.
        queues: this rank's queues.
        longest: int32 [], from `longest_queue`; equal on all ranks that exchange.

    Returns:
        The dtype of `rows` [n, D], every assignment's row.
    """

    def body(state):
        start, rows = state
        arrived = in_round(Handle(queues, start), schedule.later)
        new = one_round(params, tokens, queues, start)
        return start + schedule.later, jnp.where(arrived[:, None], new, rows)

    start = jnp.int32(schedule.first), rows
    return lax.while_loop(lambda state: state[0] < longest, body, start)[1]


def _forward(one_round, schedule, params, tokens, rows, queues, longest):
    out = later_rounds(one_round, schedule, params, tokens, rows, queues, longest)
    return out, (params, tokens, queues, longest)


def _backward(one_round, schedule, saved, cotangent):
    params, tokens, queues, longest = saved

    def body(state):
        start, sums = state
        _, transpose = jax.vjp(lambda p, t: one_round(p, t, queues, start), params, tokens)
        return start + schedule.later, jax.tree.map(jnp.add, sums, transpose(cotangent))

    start = jnp.int32(schedule.first), jax.tree.map(jnp.zeros_like, (params, tokens))
    sums = lax.while_loop(lambda state: state[0] < longest, body, start)[1]
    first = in_round(Handle(queues, jnp.int32(0)), schedule.first)
    into_first = jnp.where(first[:, None], cotangent, jnp.zeros((), cotangent.dtype))
    return *sums, into_first, None, None


later_rounds.defvjp(_forward, _backward)
