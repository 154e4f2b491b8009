"""Sum gradients over the mesh, in few large messages, and clip them by their global norm."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from parallel import Codec, psum
from zipjax.train.layout import BATCH_AXES, DATA_AXIS, EXPERT_AXIS


def sum_gradients(shared: list, experts: list, *, codec: Codec) -> tuple[list, list]:
    """Sum over all ranks that hold the same parameter.

    Args:
        shared: gradients of parameters that every device has; float32.
        experts: gradients of this device's experts, which its copies along the data axis share.
        codec: how they travel.

    Returns:
        The two lists, summed in rank order.
    """
    return (
        _psum_bucket(shared, BATCH_AXES, codec),
        _psum_bucket(experts, DATA_AXIS, codec),
    )


def clip_by_global_norm(
    shared: list, experts: list, *, clip_norm: float
) -> tuple[list, list, Float[Array, ""]]:
    """Scale gradients down to a global norm of at most `clip_norm`; also return the norm."""
    square = _square(shared) + psum(_square(experts), EXPERT_AXIS)
    norm = jnp.sqrt(square)
    scale = jnp.minimum(1.0, clip_norm / jnp.maximum(norm, 1e-12))
    shared, experts = jax.tree.map(lambda gradient: gradient * scale, (shared, experts))
    return shared, experts, norm


def _psum_bucket(leaves: list, axes, codec: Codec) -> list:
    """Sum many arrays as one flat one: small arrays would travel raw, and each would wait."""
    flat = psum(jnp.concatenate([leaf.reshape(-1) for leaf in leaves]), axes, codec=codec)
    parts = jnp.split(flat, list(_ends(leaves))[:-1])
    return [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]


def _ends(leaves: list):
    end = 0
    for leaf in leaves:
        end += leaf.size
        yield end


def _square(leaves: list) -> Float[Array, ""]:
    """Sum of squares. A dot product, because XLA cannot fuse it with what made its operands:
    fused differently, the compressed and the raw program would round differently."""
    return sum(lax.dot(leaf.reshape(-1), leaf.reshape(-1)) for leaf in leaves)
