"""One optimizer step over the whole mesh, as one program."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

from parallel import psum
from zipjax.nn import ExpertParallel, ExpertParam
from zipjax.train.config import TrainConfig
from zipjax.train.gradients import clip_by_global_norm, sum_gradients
from zipjax.train.layout import BATCH_AXES, BATCH_SPEC, DATA_AXIS, EXPERT_AXIS
from zipjax.train.optimizer import make_optimizer
from zipjax.train.state import TrainState, split_model, state_specs


class StepMetrics(NamedTuple):
    """What a step reports, equal on all devices.

    Attributes:
        loss: float32 [], mean cross entropy, nats per byte.
        balance_loss: float32 [], mean over layers; 1 is even.
        grad_norm: float32 [], global norm before clipping.
        num_rounds: int32 [], exchanges of the layer and group that took most.
    """

    loss: Float[Array, ""]
    balance_loss: Float[Array, ""]
    grad_norm: Float[Array, ""]
    num_rounds: Int[Array, ""]


def make_train_step(
    config: TrainConfig, mesh: Mesh
) -> Callable[[TrainState, jax.Array], tuple[TrainState, StepMetrics]]:
    """Compile-once function `(state, tokens) -> (state, metrics)`; the old state is given up.

    Args:
        config: of the run.
        mesh: from `make_train_mesh`.

    Returns:
        The function; tokens are uint8 [batch, length + 1], spread over the mesh.
    """
    graphdef, _ = split_model(config)
    optimizer = make_optimizer(config.optimizer, steps=config.steps)

    def step(state: TrainState, tokens: jax.Array) -> tuple[TrainState, StepMetrics]:
        loss = lambda params: _local_loss(graphdef, params, tokens, config)
        grads, (cross_entropy, stats) = jax.grad(loss, has_aux=True)(_local(state.params))
        grads, norm = _reduce(grads, config)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        sums = psum(jnp.stack([cross_entropy, stats.balance_loss.mean()]), BATCH_AXES)
        rounds = lax.pmax(stats.num_rounds.max(), DATA_AXIS)
        metrics = StepMetrics(sums[0], sums[1] / mesh.size, norm, rounds)
        return TrainState(state.step + 1, params, opt_state), metrics

    specs = state_specs(config)
    spread = jax.shard_map(
        step, mesh=mesh, in_specs=(specs, BATCH_SPEC), out_specs=(specs, P()), check_vma=True
    )
    return jax.jit(spread, donate_argnums=0)


def _local(params: nnx.State) -> nnx.State:
    """Type parameters as each device's own, so that no gradient is summed behind our back."""

    def local(param: nnx.Variable) -> nnx.Variable:
        axes = DATA_AXIS if isinstance(param, ExpertParam) else BATCH_AXES
        return jax.tree.map(lambda leaf: lax.pcast(leaf, axes, to="varying"), param)

    return jax.tree.map(local, params, is_leaf=lambda node: isinstance(node, nnx.Variable))


def _local_loss(graphdef, params, tokens, config: TrainConfig):
    """This device's share of the loss of the batch; shares add up to the loss."""
    inputs, targets = tokens[:, :-1].astype(jnp.int32), tokens[:, 1:].astype(jnp.int32)
    parallel = ExpertParallel(expert_axis=EXPERT_AXIS, batch_axes=BATCH_AXES, codec=config.codec)
    logits, stats = nnx.merge(graphdef, params)(inputs, parallel)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
    share = 1 / lax.axis_size(BATCH_AXES)
    cross_entropy = losses.mean() * share
    balance = stats.balance_loss.mean() * share
    return cross_entropy + config.balance_weight * balance, (cross_entropy, stats)


def _reduce(grads: nnx.State, config: TrainConfig) -> tuple[nnx.State, Float[Array, ""]]:
    """Sum and clip gradients; also their norm."""
    variables, treedef = jax.tree.flatten(
        grads, is_leaf=lambda node: isinstance(node, nnx.Variable)
    )
    is_expert = [isinstance(variable, ExpertParam) for variable in variables]
    leaves = [jax.tree.leaves(variable)[0] for variable in variables]
    shared = [leaf for leaf, expert in zip(leaves, is_expert, strict=True) if not expert]
    experts = [leaf for leaf, expert in zip(leaves, is_expert, strict=True) if expert]
    shared, experts = sum_gradients(shared, experts, codec=config.codec)
    shared, experts, norm = clip_by_global_norm(
        shared, experts, clip_norm=config.optimizer.clip_norm
    )
    queues = {False: iter(shared), True: iter(experts)}
    merged = [next(queues[expert]) for expert in is_expert]
    return jax.tree.unflatten(jax.tree.structure(grads), merged), norm
