"""The loss on text that is never learnt from."""

import jax
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from parallel import psum
from zipjax.train.config import TrainConfig
from zipjax.train.layout import BATCH_AXES, BATCH_SPEC
from zipjax.train.loss import cross_entropy_share
from zipjax.train.state import split_model, state_specs


def make_evaluate(config: TrainConfig, mesh: Mesh) -> jax.stages.Wrapped:
    """Compile-once function `(params, tokens) -> loss`.

    Args:
        config: of the run.
        mesh: from `make_train_mesh`.

    Returns:
        The jitted function; tokens are uint8 [batch, length + 1], spread over the mesh, and the
        loss is the mean cross entropy, float32 [], nats per byte.
    """
    graphdef, _ = split_model(config)

    def evaluate(params: nnx.State, tokens: jax.Array) -> jax.Array:
        share, _ = cross_entropy_share(graphdef, params, tokens, config)
        return psum(share, BATCH_AXES)

    specs = state_specs(config).params
    return jax.jit(jax.shard_map(evaluate, mesh=mesh, in_specs=(specs, BATCH_SPEC), out_specs=P()))
