"""The rounds after the first: as many as the longest queue needs, none when all fitted.

A loop over a data-dependent number of rounds has no reverse-mode derivative of its own, so the
backward pass is written here: a second loop that repeats each round and adds its gradients.
Memory does not grow with the number of rounds, and there is no largest number of them.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from parallel.moe.queues import Queues
from parallel.moe.slots import Handle, in_round


def num_rounds(queues: Queues, *, capacity: int, axis_name=None) -> jax.Array:
    """int32 [], rounds until the longest queue of all ranks is empty; at least 1."""
    longest = queues.counts.max()
    if axis_name is not None:
        longest = lax.pmax(longest, axis_name)
    return jnp.maximum(-(-longest // capacity), 1)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def later_rounds(
    one_round: Callable, capacity: int, params, tokens, rows, queues: Queues, until: jax.Array
) -> jax.Array:
    """Run rounds 1, 2, ... `until` - 1 and put their rows where the first round left zeros.

    Args:
        one_round: `(params, tokens, queues, round_idx) -> rows`, every rank the same collectives.
        capacity: positions per queue and round.
        params: the experts' parameters.
        tokens: float [T, D].
        rows: float [n, D], what round 0 gave.
        queues: this rank's queues.
        until: int32 [], `num_rounds`.

    Returns:
        The dtype of `rows` [n, D], every assignment's row.
    """

    def body(state):
        round_idx, rows = state
        arrived = in_round(Handle(queues, round_idx), capacity)
        new = one_round(params, tokens, queues, round_idx)
        return round_idx + 1, jnp.where(arrived[:, None], new, rows)

    return lax.while_loop(lambda state: state[0] < until, body, (jnp.int32(1), rows))[1]


def _forward(one_round, capacity, params, tokens, rows, queues, until):
    out = later_rounds(one_round, capacity, params, tokens, rows, queues, until)
    return out, (params, tokens, queues, until)


def _backward(one_round, capacity, saved, cotangent):
    params, tokens, queues, until = saved

    def body(state):
        round_idx, sums = state
        _, transpose = jax.vjp(lambda p, t: one_round(p, t, queues, round_idx), params, tokens)
        return round_idx + 1, jax.tree.map(jnp.add, sums, transpose(cotangent))

    start = jnp.int32(1), jax.tree.map(jnp.zeros_like, (params, tokens))
    sums = lax.while_loop(lambda state: state[0] < until, body, start)[1]
    first = in_round(Handle(queues, jnp.int32(0)), capacity)
    into_first = jnp.where(first[:, None], cotangent, jnp.zeros((), cotangent.dtype))
    return *sums, into_first, None, None


later_rounds.defvjp(_forward, _backward)
