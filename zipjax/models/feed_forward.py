"""The feed-forward half of a block: one SwiGLU network, or a mixture of them."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from pallas_kernels import dtype_from_name
from parallel import moe
from zipjax.models.causal_config import CausalConfig, MlpConfig, SparseConfig
from zipjax.models.layers import linear
from zipjax.models.routing import choose_experts
from zipjax.nn import SwigluExperts


class SwigluMlp(nnx.Module):
    """down(silu(gate(x)) * up(x)) (Shazeer 2020, equation 6)."""

    def __init__(self, config: CausalConfig, mlp: MlpConfig, *, rngs: nnx.Rngs):
        """Make the three matrices."""
        sizes = {"bias": mlp.bias, "dtype": dtype_from_name(config.dtype), "rngs": rngs}
        self.gate_proj = linear(config.width, mlp.hidden, **sizes)
        self.up_proj = linear(config.width, mlp.hidden, **sizes)
        self.down_proj = linear(mlp.hidden, config.width, **sizes)

    def __call__(self, x: Float[Array, "*B W"]) -> Float[Array, "*B W"]:
        """Apply it to the last axis."""
        return self.down_proj(jax.nn.silu(self.gate_proj(x)) * self.up_proj(x))


class SparseMlp(nnx.Module):
    """Every token goes to `num_selected` experts, and to the shared one; none is dropped."""

    def __init__(self, config: CausalConfig, sparse: SparseConfig, *, rngs: nnx.Rngs):
        """Make router, experts and the expert that sees every token."""
        self.sparse, self.dtype = sparse, dtype_from_name(config.dtype)
        self.gate = linear(
            config.width, sparse.num_experts, bias=False, dtype=jnp.float32, rngs=rngs
        )
        corrected = sparse.scoring == "sigmoid"
        zeros = jnp.zeros(sparse.num_experts, jnp.float32)
        self.e_score_correction_bias = nnx.Param(zeros) if corrected else None
        self.experts = SwigluExperts(
            sparse.num_experts, config.width, sparse.hidden, dtype=self.dtype, rngs=rngs
        )
        hidden = sparse.shared_hidden
        shared = SwigluMlp(config, MlpConfig(hidden=hidden), rngs=rngs) if hidden else None
        self.shared_experts = shared

    def __call__(self, x: Float[Array, "B T W"]) -> Float[Array, "B T W"]:
        """Mix the experts' answers, computed in the model's dtype and added in float32."""
        tokens = x.reshape(-1, x.shape[-1])
        correction = self.e_score_correction_bias
        routing = choose_experts(
            self.gate(tokens.astype(jnp.float32)),
            None if correction is None else correction[...].astype(jnp.float32),
            self.sparse,
        )
        graphdef, params = nnx.split(self.experts)
        mixed = moe.mixture(
            lambda params, rows: nnx.merge(graphdef, params)(rows),
            params,
            tokens,
            routing,
            wire_dtype=self.dtype,
        ).values
        mixed = mixed.astype(x.dtype).reshape(x.shape)
        return mixed if self.shared_experts is None else mixed + self.shared_experts(x)


def feed_forward(
    config: CausalConfig, layer: MlpConfig | SparseConfig, *, rngs: nnx.Rngs
) -> SwigluMlp | SparseMlp:
    """The network that `layer` describes."""
    make = SwigluMlp if isinstance(layer, MlpConfig) else SparseMlp
    return make(config, layer, rngs=rngs)  # type: ignore[arg-type]
