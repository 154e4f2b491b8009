"""The loss of a batch, as shares of the devices that hold its parts."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from jaxtyping import Array, Float

from zipjax.nn import ExpertParallel, MoEStats
from zipjax.train.codes import wire_codes
from zipjax.train.config import TrainConfig
from zipjax.train.layout import BATCH_AXES, EXPERT_AXIS


def cross_entropy_share(
    graphdef: nnx.GraphDef, params: nnx.State, tokens: jax.Array, config: TrainConfig
) -> tuple[Float[Array, ""], MoEStats]:
    """This device's share of the mean cross entropy; the shares of all devices add up to it.

    Args:
        graphdef: the model's structure.
        params: its parameters, inside `jax.shard_map`.
        tokens: uint8 [b, length + 1], this device's sequences.
        config: of the run.

    Returns:
        float32 [], nats per byte, and the layers' reports.
    """
    inputs, targets = tokens[:, :-1].astype(jnp.int32), tokens[:, 1:].astype(jnp.int32)
    codec = wire_codes(config.codec).activations
    parallel = ExpertParallel(expert_axis=EXPERT_AXIS, batch_axes=BATCH_AXES, codec=codec)
    logits, stats = nnx.merge(graphdef, params)(inputs, parallel)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    return losses.mean() / lax.axis_size(BATCH_AXES), stats
