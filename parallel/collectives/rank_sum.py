"""The definition of every sum here: add in rank order in float32, then round once.

A sum that is defined element by element gives the same bits on every backend, mesh layout and
run, which `jax.lax.psum` does not promise: it may add in any order, and in the operand's own
precision.
"""

import jax
import jax.numpy as jnp
from jax import lax

from pallas_kernels import ArgumentError


def rank_sum(parts: jax.Array) -> jax.Array:
    """Sum over the leading axis, in order.

    Floats of at most 32 bits are added in float32 and rounded once to their own type, and a NaN
    result is the canonical quiet NaN (which of two NaN payloads survives an addition is up to
    the compiler). Wider floats, complex numbers and integers are added in their own type;
    integers wrap.

    Args:
        parts: any numeric dtype [P, ...], one part per rank in rank order.

    Returns:
        The dtype of `parts` [...].
    """
    dtype = parts.dtype
    narrow = jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).bits <= 32
    wide = jnp.float32 if narrow else dtype
    part = lambda rank: lax.index_in_dim(parts, rank, keepdims=False).astype(wide)
    total = part(0)
    for rank in range(1, parts.shape[0]):
        total = total + part(rank)
    if not narrow:
        return total
    # Not `jnp.where`, which types an empty result as equal on all ranks.
    total = lax.select(jnp.isnan(total), jnp.full_like(total, jnp.nan), total)
    # Without the barrier XLA may drop the rounding when the caller widens the result again.
    return lax.optimization_barrier(total.astype(dtype))


def require_summable(x: jax.Array) -> jax.Array:
    """Return `x`, or refuse booleans, whose sum in their own type would be an "or".

    Raises:
        ArgumentError: when `x` is boolean.
    """
    if x.dtype == bool:
        raise ArgumentError("only numbers can be summed", got="bool", fix="cast to int32 first")
    return x
