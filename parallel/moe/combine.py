"""Bring the experts' rows back and add up what each token's experts made of it."""

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float

from parallel.collectives import all_to_all
from parallel.collectives.axes import AxisName
from parallel.moe.slots import Handle, gather_back
from parallel.wire import Codec


def collect(
    outputs: Float[Array, "e N D"],
    handle: Handle,
    *,
    axis_name: AxisName | None = None,
    codec: Codec = None,
    wire_dtype: DTypeLike = jnp.bfloat16,
) -> Float[Array, "n D"]:
    """Undo one `dispatch`: one row per assignment.

    Args:
        outputs: float [E / P, P * capacity, D], rows in the order that `dispatch` gave.
        handle: what `dispatch` gave.
        axis_name: as in `dispatch`.
        codec: how the rows travel.
        wire_dtype: the dtype in which they travel.

    Returns:
        `wire_dtype` [T * k, D], zero for assignments that were not in this round.
    """
    slots = outputs.astype(wire_dtype)
    if axis_name is not None:
        slots = all_to_all(slots, axis_name, 1, 0, tiled=True, codec=codec)
    return gather_back(slots, handle)


def combine(rows: Float[Array, "n D"], weights: Float[Array, "T k"]) -> Float[Array, "T D"]:
    """Weighted sum over each token's k choices, first choice first, in float32.

    The order does not depend on how many rounds or ranks there were, so neither do the bits.

    Args:
        rows: float [T * k, D], one per assignment.
        weights: float32 [T, k].

    Returns:
        float32 [T, D].
    """
    num_tokens, num_selected = weights.shape
    per_choice = rows.reshape(num_tokens, num_selected, -1).astype(jnp.float32)
    total = weights[:, :1] * per_choice[:, 0]
    for choice in range(1, num_selected):
        total = total + weights[:, choice : choice + 1] * per_choice[:, choice]
    return total
