"""Sum gradients over the mesh, in few large messages, and clip them by their global norm."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from parallel import Codec, psum
from zipjax.nn import ExpertParam
from zipjax.train.layout import BATCH_AXES, DATA_AXIS, EXPERT_AXIS


def reduce_gradients(
    grads: nnx.State, *, codec: Codec, clip_norm: float
) -> tuple[nnx.State, Float[Array, ""]]:
    """Sum over all ranks that hold the same parameter, and scale down a large gradient.

    Experts are shared along the data axis, everything else along both. Each of the two sets
    travels as one flat array: small arrays would travel raw, and each would wait.

    Args:
        grads: this device's gradients, float32.
        codec: how they travel.
        clip_norm: largest global norm that passes unchanged.

    Returns:
        The sums in rank order, and their global norm before clipping.
    """
    experts, shared = nnx.split_state(grads, ExpertParam, ...)
    flat_experts, unravel_experts = ravel_pytree(experts)
    flat_shared, unravel_shared = ravel_pytree(shared)
    # Two lines, so that the wire report tells them apart.
    experts = unravel_experts(psum(flat_experts, DATA_AXIS, codec=codec))
    shared = unravel_shared(psum(flat_shared, BATCH_AXES, codec=codec))
    norm = jnp.sqrt(psum(_square(experts), EXPERT_AXIS) + _square(shared))
    scale = jnp.minimum(1.0, clip_norm / jnp.maximum(norm, 1e-12))
    summed = nnx.merge_state(experts, shared)
    return jax.tree.map(lambda leaf: leaf * scale, summed), norm


def _square(tree: PyTree) -> Float[Array, ""]:
    """Sum of squares. A dot product, because XLA cannot fuse it with what made its operands:
    fused differently, the compressed and the raw program would round differently."""
    flat, _ = ravel_pytree(tree)
    return lax.dot(flat, flat)
