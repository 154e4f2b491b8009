"""The optimizer of a run."""

import jax
import optax
from flax import nnx

from zipjax.train.config import OptimizerConfig


def learning_rate(config: OptimizerConfig, *, steps: int) -> optax.Schedule:
    """Linear warm-up from 0, then half a cosine down to `final_rate * peak_rate`.

    Args:
        config: the rates.
        steps: optimizer steps in all; a run shorter than its warm-up is all warm-up.
    """
    return optax.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=config.peak_rate,
        warmup_steps=min(config.warmup_steps, steps - 1),
        decay_steps=steps,
        end_value=config.final_rate * config.peak_rate,
    )


def make_optimizer(config: OptimizerConfig, *, steps: int) -> optax.GradientTransformation:
    """AdamW; scales of norms do not decay. Clipping needs the mesh and is done before it."""
    return optax.adamw(
        learning_rate(config, steps=steps),
        b1=config.beta1,
        b2=config.beta2,
        weight_decay=config.weight_decay,
        mask=_decays,
    )


def _decays(params: nnx.State) -> nnx.State:
    """Whether a parameter is a matrix rather than the scale of a norm."""
    return jax.tree.map_with_path(lambda path, _: "scale" not in jax.tree_util.keystr(path), params)
