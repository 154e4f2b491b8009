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
        # Where experts are spread over devices, to fetch some costs more than to ask them all.
        self.fetches_experts = True
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
        is_few = routing.expert_idx.size <= self.sparse.num_experts
        ask = self._ask_chosen if is_few and self.fetches_experts else self._ask_all
        mixed = ask(tokens, routing).astype(x.dtype).reshape(x.shape)
        return mixed if self.shared_experts is None else mixed + self.shared_experts(x)

    def _ask_all(self, tokens: Float[Array, "T W"], routing: moe.Routing) -> Float[Array, "T W"]:
        """Line the tokens up before all experts."""
        graphdef, params = nnx.split(self.experts)
        mixed = moe.mixture(
            lambda params, rows: nnx.merge(graphdef, params)(rows),
            params,
            tokens,
            routing,
            wire_dtype=self.dtype,
        )
        return mixed.values

    def _ask_chosen(self, tokens: Float[Array, "T W"], routing: moe.Routing) -> Float[Array, "T W"]:
        """Fetch the experts of every token: a step of generation reads no other's weights.

        A bank of some experts is the bank with some rows of every array, compressed or not.
        """
        num_tokens, num_selected = routing.expert_idx.shape
        chosen = routing.expert_idx.reshape(-1)
        graphdef, params = nnx.split(self.experts)
        bank = nnx.merge(graphdef, jax.tree.map(lambda leaf: leaf[chosen], params))
        rows = jnp.repeat(tokens, num_selected, axis=0)[:, None]
        answers = bank(rows).reshape(num_tokens, num_selected, -1).astype(jnp.float32)
        return jnp.einsum("tkw,tk->tw", answers, routing.weights)


def feed_forward(
    config: CausalConfig, layer: MlpConfig | SparseConfig, *, rngs: nnx.Rngs
) -> SwigluMlp | SparseMlp:
    """The network that `layer` describes."""
    make = SwigluMlp if isinstance(layer, MlpConfig) else SparseMlp
    return make(config, layer, rngs=rngs)  # type: ignore[arg-type]


def keep_experts_apart(model: nnx.Module) -> None:
    """Say to the mixtures of a model that their experts are spread over devices."""
    for _, node in nnx.iter_graph(model):
        if isinstance(node, SparseMlp):
            node.fetches_experts = False
