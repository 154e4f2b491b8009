"""Carry an array through a collective that only moves data, raw or coded, bit for bit."""

from collections.abc import Callable

import jax

from parallel.wire.bits import from_wire, to_wire


def transport(x: jax.Array, move: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """Return `move(x)` for a `move` that permutes or copies elements."""
    return from_wire(move(to_wire(x)), x.dtype)
