"""One optimizer step over the whole mesh, as one program."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from parallel import psum
from zipjax.nn import ExpertParam
from zipjax.train.codes import wire_codes
from zipjax.train.config import TrainConfig
from zipjax.train.gradients import reduce_gradients
from zipjax.train.layout import BATCH_AXES, BATCH_SPEC, DATA_AXIS, EXPERT_AXIS
from zipjax.train.loss import cross_entropy_share
from zipjax.train.optimizer import make_optimizer
from zipjax.train.state import TrainState, split_model, state_specs


class StepMetrics(NamedTuple):
    """What a step reports, equal on all devices.

    Attributes:
        loss: float32 [], mean cross entropy, nats per byte.
        balance_loss: float32 [], mean over layers; 1 is even.
        grad_norm: float32 [], global norm before clipping.
        extra_rounds: float32 [], exchanges of tokens beyond the first, mean over the layers and
            the groups of devices that exchange with each other.
    """

    loss: Float[Array, ""]
    balance_loss: Float[Array, ""]
    grad_norm: Float[Array, ""]
    extra_rounds: Float[Array, ""]


def make_train_step(config: TrainConfig, mesh: Mesh) -> jax.stages.Wrapped:
    """Compile-once function `(state, tokens) -> (state, metrics)`; the old state is given up.

    Args:
        config: of the run.
        mesh: from `make_train_mesh`.

    Returns:
        The jitted function; tokens are uint8 [batch, length + 1], spread over the mesh, and the
        results are a `TrainState` and `StepMetrics`.
    """
    graphdef, _ = split_model(config)
    optimizer = make_optimizer(config.optimizer, steps=config.steps)
    codec = wire_codes(config.codec).gradients

    def local_loss(params: nnx.State, tokens: jax.Array) -> tuple[jax.Array, tuple]:
        cross_entropy, stats = cross_entropy_share(graphdef, params, tokens, config)
        balance = stats.balance_loss.mean() / mesh.size
        return cross_entropy + config.balance_weight * balance, (cross_entropy, stats)

    def step(state: TrainState, tokens: jax.Array) -> tuple[TrainState, StepMetrics]:
        gradient = jax.grad(local_loss, has_aux=True)
        grads, (cross_entropy, stats) = gradient(_own(state.params), tokens)
        grads, norm = reduce_gradients(grads, codec=codec, clip_norm=config.optimizer.clip_norm)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        extra_rounds = lax.pcast(stats.num_rounds - 1, EXPERT_AXIS, to="varying").mean()
        means = jnp.stack([stats.balance_loss.mean(), extra_rounds]) / mesh.size
        loss, balance, extra = psum(jnp.stack([cross_entropy, *means]), BATCH_AXES)
        return TrainState(state.step + 1, params, opt_state), StepMetrics(
            loss, balance, norm, extra
        )

    specs = state_specs(config)
    spread = jax.shard_map(
        step, mesh=mesh, in_specs=(specs, BATCH_SPEC), out_specs=(specs, P()), check_vma=True
    )
    return jax.jit(spread, donate_argnums=0)


def _own(params: nnx.State) -> nnx.State:
    """Type parameters as each device's own, so that no gradient is summed behind our back."""

    def own(param: nnx.Variable) -> nnx.Variable:
        axes = DATA_AXIS if isinstance(param, ExpertParam) else BATCH_AXES
        return jax.tree.map(lambda leaf: lax.pcast(leaf, axes, to="varying"), param)

    return jax.tree.map(own, params, is_leaf=lambda node: isinstance(node, nnx.Variable))
