"""What a run carries from step to step."""

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int

from zipjax.models import MoEDecoder
from zipjax.train.config import TrainConfig
from zipjax.train.layout import param_specs, shardings
from zipjax.train.optimizer import make_optimizer


class TrainState(NamedTuple):
    """Everything that a step changes.

    The order of the text and the initial parameters are functions of the seed, and the position
    in the text is a function of the step, so there is no hidden state besides.

    Attributes:
        step: int32 [], steps done.
        params: the model's parameters, float32.
        opt_state: the optimizer's state, of the parameters' layout.
    """

    step: Int[Array, ""]
    params: nnx.State
    opt_state: optax.OptState


def split_model(config: TrainConfig) -> tuple[nnx.GraphDef, nnx.State]:
    """The model's structure and its parameters' shapes; allocates nothing."""
    return nnx.split(nnx.eval_shape(lambda: _make_model(config)))


def state_specs(config: TrainConfig) -> Any:
    """A `TrainState` with a `PartitionSpec` for every leaf."""
    _, params = split_model(config)
    specs = param_specs(params)
    optimizer = make_optimizer(config.optimizer, steps=config.steps)
    opt_specs = optax.tree_map_params(
        optimizer,
        lambda _, spec: spec,
        abstract_state(config).opt_state,
        specs,
        transform_non_params=lambda _: P(),
    )
    return TrainState(cast(Any, P()), specs, opt_specs)


def abstract_state(config: TrainConfig) -> TrainState:
    """The state's shapes and dtypes; allocates nothing."""
    return jax.eval_shape(lambda: _draw(config))


def init_state(config: TrainConfig, mesh: Mesh) -> TrainState:
    """Draw the parameters on the mesh; the same values on every mesh."""
    places = shardings(mesh, state_specs(config))
    return jax.jit(lambda: _draw(config), out_shardings=places)()


def _draw(config: TrainConfig) -> TrainState:
    params = nnx.state(_make_model(config))
    optimizer = make_optimizer(config.optimizer, steps=config.steps)
    return TrainState(jnp.int32(0), params, optimizer.init(params))


def _make_model(config: TrainConfig) -> MoEDecoder:
    return MoEDecoder(config.model, rngs=nnx.Rngs(config.seed))
