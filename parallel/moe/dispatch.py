"""Send tokens to the ranks that hold their experts."""

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Int

from parallel.collectives import all_to_all
from parallel.collectives.axes import AxisName
from parallel.moe.queues import Queues
from parallel.moe.slots import Handle, spread
from parallel.wire import Codec


def dispatch(
    tokens: Float[Array, "T D"],
    queues: Queues,
    start: Int[Array, ""] | int = 0,
    *,
    capacity: int,
    axis_name: AxisName | None = None,
    codec: Codec = None,
    wire_dtype: DTypeLike = jnp.bfloat16,
) -> tuple[Float[Array, "e N D"], Handle]:
    """Send one round: `capacity` positions of every queue.

    Experts are dealt out in blocks: rank r of P holds experts [r * E / P, (r + 1) * E / P).

    Args:
        tokens: float [T, D].
        queues: who goes where, from `line_up`.
        start: the first position of the queues that goes, int32 [].
        capacity: how many positions of every queue go.
        axis_name: the mesh axis that the experts are spread over; None when all are here.
        codec: how the tokens travel.
        wire_dtype: the dtype in which they travel.

    Returns:
        `wire_dtype` [E / P, P * capacity, D], rows by sending rank, zero where a queue has
        ended; and the handle for `collect`.
    """
    handle = Handle(queues, jnp.asarray(start, jnp.int32))
    # Cast after the gather: gradients of a token's choices then add up in the tokens' dtype.
    slots = spread(tokens, handle, capacity).astype(wire_dtype)
    if axis_name is not None:
        slots = all_to_all(slots, axis_name, 0, 1, tiled=True, codec=codec)
    return slots, handle
