"""The plain layers that every architecture is made of; `zipjax.compress_model` swaps them."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import DTypeLike

from pallas_kernels import dtype_from_name
from zipjax.models.causal_config import CausalConfig


def linear(
    in_features: int, out_features: int, *, bias: bool, dtype: DTypeLike, rngs: nnx.Rngs
) -> nnx.Linear:
    """A matrix [in, out] drawn in float32, that computes in `dtype`."""
    return nnx.Linear(in_features, out_features, use_bias=bias, dtype=dtype, rngs=rngs)


def rms_norm(width: int, config: CausalConfig, *, rngs: nnx.Rngs) -> nnx.RMSNorm:
    """x over its root mean square, times a scale; the mean square is in float32."""
    dtype = dtype_from_name(config.dtype)
    return nnx.RMSNorm(width, epsilon=config.norm_epsilon, dtype=dtype, rngs=rngs)


def embedding(config: CausalConfig, *, rngs: nnx.Rngs) -> nnx.Embed:
    """The table [vocab_size, width] of tokens."""
    dtype = dtype_from_name(config.dtype)
    return nnx.Embed(
        config.vocab_size, config.width, dtype=dtype, param_dtype=jnp.float32, rngs=rngs
    )
