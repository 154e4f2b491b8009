"""The loss that keeps the experts evenly used (Switch Transformer, section 2.2)."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from parallel.collectives.axes import AxisName
from parallel.moe.routing import Routing


def balance_loss(
    routing: Routing, counts: Int[Array, " E"], *, axis_name: AxisName | None = None
) -> Float[Array, ""]:
    """E * sum over experts of (share of the assignments) * (mean probability).

    It is 1 when the experts are used evenly and E when one expert takes everything (k = 1). The
    shares are those of the whole batch: they are counted over all ranks of `axis_name`, so the
    mean of this loss over the ranks is the loss of the whole batch.

    Args:
        routing: this rank's choices.
        counts: int32 [E], this rank's assignments per expert.
        axis_name: the mesh axis or axes that the batch is spread over; None on one device.

    Returns:
        float32 [], with a gradient through `routing.probs` alone.
    """
    if axis_name is not None:
        counts = lax.psum(counts, axis_name)  # integers: exact in any order
    share = counts / jnp.maximum(counts.sum(), 1)
    return counts.shape[0] * jnp.sum(share * routing.probs.mean(axis=0))
