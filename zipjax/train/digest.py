"""A short name for all bits of a state, equal on every mesh and for any number of processes."""

import hashlib

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree


def digest_state(state: PyTree) -> str:
    """16 hexadecimal digits that differ where any element of any array differs.

    Made to tell apart runs that went apart by accident, not against an adversary: every array is
    hashed on the devices by sums of integers, which are exact in any order, and the sums by BLAKE2.

    Args:
        state: pytree of arrays with elements of 32 bits.
    """
    sums = jax.jit(lambda leaves: [_checksum(leaf) for leaf in leaves])(jax.tree.leaves(state))
    words = b"".join(bytes(memoryview(jax.device_get(pair))) for pair in sums)
    return hashlib.blake2b(words, digest_size=8).hexdigest()


def _checksum(x: jax.Array) -> jax.Array:
    """Two sums over elements mixed with their positions: uint32 [2]."""
    bits = lax.bitcast_convert_type(x, jnp.uint32).reshape(-1)
    place = jnp.arange(bits.size, dtype=jnp.uint32)
    return jnp.stack([_mixed_sum(bits, place, odd) for odd in (0x9E3779B1, 0xC2B2AE35)])


def _mixed_sum(bits: jax.Array, place: jax.Array, odd: int) -> jax.Array:
    mixed = (bits ^ (place * jnp.uint32(odd))) * jnp.uint32(0x85EBCA6B)
    return jnp.sum((mixed ^ (mixed >> 15)) * jnp.uint32(odd), dtype=jnp.uint32)
