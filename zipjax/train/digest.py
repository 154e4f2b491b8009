"""A short name for all bits of a state, equal on every mesh and for any number of processes."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import PyTree

_SEEDS = (np.uint32(0x9E3779B9), np.uint32(0x3C6EF372))  # of two sums that do not fail together


def digest_state(state: PyTree) -> str:
    """16 hexadecimal digits that differ where any element of any array differs.

    Made to tell apart runs that went apart by accident, not against an adversary: every array is
    hashed on the devices by sums of integers, which are exact in any order, and the sums by BLAKE2.

    Args:
        state: pytree of arrays with elements of 32 bits.
    """
    sums = _checksums(jax.tree.leaves(state))
    words = b"".join(bytes(memoryview(jax.device_get(pair))) for pair in sums)
    return hashlib.blake2b(words, digest_size=8).hexdigest()


@jax.jit
def _checksums(leaves: list[jax.Array]) -> list[jax.Array]:
    return [_checksum(leaf) for leaf in leaves]


def _checksum(x: jax.Array) -> jax.Array:
    """Two sums over elements mixed with their positions: uint32 [2]."""
    bits = lax.bitcast_convert_type(x, jnp.uint32).reshape(-1)
    place = jnp.arange(bits.size, dtype=jnp.uint32)
    sums = [_avalanche(bits ^ _avalanche(place + seed)).sum(dtype=jnp.uint32) for seed in _SEEDS]
    return jnp.stack(sums)


def _avalanche(x: jax.Array) -> jax.Array:
    """Let every bit in flip half of the bits out (the last step of MurmurHash3)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
