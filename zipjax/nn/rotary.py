"""Rotary position embedding (RoFormer, section 3.2.2), halves rotated against each other."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from pallas_kernels import ArgumentError


def rotary(x: Float[Array, "*B L H D"], *, theta: float = 10_000.0) -> Float[Array, "*B L H D"]:
    """Rotate the pair (i, i + D / 2) of position p by the angle p * theta ** (-2 i / D).

    The product of a query and a key rotated so depends on the distance of their positions only.

    Args:
        x: float [..., L, H, D], positions 0 to L - 1 on the third last axis.
        theta: base of the wavelengths, dimensionless.

    Returns:
        The dtype and shape of `x`; computed in float32.

    Raises:
        ArgumentError: when D is odd.
    """
    length, _, dim = x.shape[-3:]
    if dim % 2:
        raise ArgumentError("rotary embedding needs an even head dimension", got=dim)
    rates = theta ** (-2.0 * jnp.arange(dim // 2, dtype=jnp.float32) / dim)
    positions = jnp.arange(length, dtype=jnp.float32)
    angles = jnp.expand_dims(jnp.outer(positions, rates)[:, None], range(x.ndim - 3))
    low, high = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    rotated = jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
    return rotated.astype(x.dtype)
