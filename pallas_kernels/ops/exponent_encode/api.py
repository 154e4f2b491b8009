"""Encode a tensor for the wire: static sizes, every bit, inside or outside `jit`."""

import jax.numpy as jnp
from jax import Array

from pallas_kernels.format.slot_layout import check_dtype
from pallas_kernels.ops.exponent_encode import reference
from pallas_kernels.payload import ExponentConfig, ExponentPayload

DEFAULT_CONFIG = ExponentConfig()


def exponent_encode(x: Array, config: ExponentConfig = DEFAULT_CONFIG) -> ExponentPayload:
    """Encode a tensor in the exponent code.

    Args:
        x: bfloat16, float16 or float32, any shape, 0-d and empty included.
        config: how much room the payload keeps; see `ExponentConfig`.

    Returns:
        The payload. Where its `overflow` is true it does not hold `x`: send `x` raw.

    Raises:
        UnsupportedError: another dtype, or more elements than 32-bit positions reach.
    """
    x = jnp.asarray(x)
    check_dtype(x.dtype)
    return reference.exponent_encode(x, config)
