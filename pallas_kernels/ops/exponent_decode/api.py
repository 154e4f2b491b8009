"""Decode a tensor that came over the wire: the exact bits that were encoded."""

from jax import Array

from pallas_kernels.ops.exponent_decode import reference
from pallas_kernels.payload import ExponentPayload


def exponent_decode(payload: ExponentPayload) -> Array:
    """Decode a payload.

    Args:
        payload: made by `exponent_encode`; map over its leaves with `vmap` for batches.

    Returns:
        `payload.dtype` [*payload.shape], bit for bit what was encoded. Undefined where
        `payload.overflow` is true.
    """
    return reference.exponent_decode(payload)
