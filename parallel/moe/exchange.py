"""The dropless mixture: dispatch, experts, collect, as many rounds as needed, combine."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, DTypeLike, Float, Int, PyTree

from pallas_kernels import ArgumentError
from parallel.collectives.axes import AxisName
from parallel.moe.combine import collect, combine
from parallel.moe.dispatch import dispatch
from parallel.moe.queues import line_up
from parallel.moe.rounds import Schedule, later_rounds, longest_queue, num_rounds
from parallel.moe.routing import Routing
from parallel.wire import Codec

Experts = Callable[[PyTree, Float[Array, "e N D"]], Float[Array, "e N D"]]


class Mixed(NamedTuple):
    """What `mixture` returns.

    Attributes:
        values: float32 [T, D].
        counts: int32 [E], this rank's assignments per expert, for the balance loss.
        num_rounds: int32 [], rounds that it took, equal on all ranks of the expert axis.
    """

    values: Float[Array, "T D"]
    counts: Int[Array, " E"]
    num_rounds: Int[Array, ""]


def mixture(
    experts: Experts,
    params: PyTree,
    tokens: Float[Array, "T D"],
    routing: Routing,
    *,
    axis_name: AxisName | None = None,
    schedule: Schedule | None = None,
    codec: Codec = None,
    wire_dtype: DTypeLike = jnp.bfloat16,
) -> Mixed:
    """Apply every token's chosen experts, wherever they are; no token is ever dropped.

    Equal to `reference.mixture`, up to the order in which the experts' own sums are added.

    Args:
        experts: `(params, rows) -> rows` with rows float [e, N, D] for the e experts of this
            rank, each row on its own. It must map zero rows to finite rows and must not close
            over traced values (they would have no gradient).
        params: the parameters of this rank's experts.
        tokens: float [T, D], T > 0.
        routing: from `route`, over all E experts.
        axis_name: the mesh axis that the experts are spread over, in blocks; None on one device.
        schedule: positions of every queue that a round takes; `default_schedule` when None. It
            changes the speed, never the result.
        codec: how tokens and rows travel.
        wire_dtype: the dtype in which they travel.

    Raises:
        ArgumentError: when there is no token, an empty round, or E is not divisible by the ranks.
    """
    num_tokens, num_experts = routing.probs.shape
    if schedule is None:
        schedule = default_schedule(num_tokens, routing.expert_idx.shape[1], num_experts)
    _check(num_tokens, num_experts, schedule, axis_name)
    travel: dict[str, Any] = {"axis_name": axis_name, "codec": codec, "wire_dtype": wire_dtype}

    def one_round(capacity, params, tokens, queues, start):
        seen, handle = dispatch(tokens, queues, start, capacity=capacity, **travel)
        return collect(experts(params, seen), handle, **travel)

    queues = line_up(routing.expert_idx, num_experts=num_experts)
    longest = longest_queue(queues, axis_name=axis_name)
    rows = one_round(schedule.first, params, tokens, queues, 0)
    if schedule.first < num_tokens:  # an expert is chosen at most once per token
        later = partial(one_round, schedule.later)
        rows = later_rounds(later, schedule, params, tokens, rows, queues, longest)
    values = combine(rows, routing.weights)
    return Mixed(values, queues.counts, num_rounds(longest, schedule))


def default_schedule(
    num_tokens: int, num_selected: int, num_experts: int, *, slack: float = 2.0
) -> Schedule:
    """A first round for `slack` times a fair share of the assignments, later ones a quarter of it.

    More slack computes and sends more padding; less needs further rounds more often. Both sizes
    are multiples of 64 where the share is at least that (a part for one rank then fills the tiles
    of the exponent code), else of 8, and no more than the T positions that a queue can have.
    """
    fair = num_tokens * num_selected / num_experts
    step = 64 if fair >= 64 else 8
    first, later = (step * max(1, round(part * fair / step)) for part in (slack, slack / 4))
    return Schedule(min(first, num_tokens), min(later, num_tokens))


def _check(
    num_tokens: int, num_experts: int, schedule: Schedule, axis_name: AxisName | None
) -> None:
    """Refuse what has no meaning."""
    if num_tokens == 0:
        raise ArgumentError("a mixture needs at least one token", got="none")
    if min(schedule) < 1:
        raise ArgumentError("every round must take at least one position", got=schedule)
    num_ranks = 1 if axis_name is None else lax.axis_size(axis_name)
    if num_experts % num_ranks:
        raise ArgumentError(
            f"the number of experts must be divisible by the {num_ranks} ranks of {axis_name!r}",
            got=num_experts,
        )
