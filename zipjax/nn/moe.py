"""The mixture-of-experts layer: a router, a bank of experts, and the exchange between them."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, DTypeLike, Float, Int

from parallel import Codec, moe
from zipjax.nn.experts import SwigluExperts


@dataclass(frozen=True, kw_only=True)
class ExpertParallel:
    """Where a layer runs, inside `jax.shard_map`; the defaults are one device.

    Attributes:
        expert_axis: mesh axis that the experts are spread over.
        batch_axes: mesh axes that the tokens are spread over.
        codec: how tokens travel to their experts and back.
    """

    expert_axis: str | None = None
    batch_axes: tuple[str, ...] | None = None
    codec: Codec = None


ONE_DEVICE = ExpertParallel()


class MoEStats(NamedTuple):
    """What one layer reports of one batch.

    Attributes:
        balance_loss: float32 [], see `parallel.moe.balance_loss`.
        counts: int32 [E], this rank's assignments per expert.
        num_rounds: int32 [], exchanges that it took; 1 unless a queue was longer than its share.
    """

    balance_loss: Float[Array, ""]
    counts: Int[Array, " E"]
    num_rounds: Int[Array, ""]


class MoE(nnx.Module):
    """Every token goes to `num_selected` of `num_experts` SwiGLU experts; none is dropped."""

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        num_experts: int,
        num_selected: int,
        dtype: DTypeLike = jnp.float32,
        param_dtype: DTypeLike = jnp.float32,
        wire_dtype: DTypeLike = jnp.bfloat16,
        rngs: nnx.Rngs,
    ):
        """Make the router and the experts.

        Args:
            width: elements of a token.
            hidden: elements between an expert's matrices.
            num_experts: E, over all ranks.
            num_selected: experts per token.
            dtype: dtype of the experts' computation; the router computes in float32.
            param_dtype: dtype of the parameters.
            wire_dtype: dtype in which tokens travel to the experts and back.
            rngs: uses the stream "params".
        """
        self.num_selected = num_selected
        self.wire_dtype = wire_dtype
        self.router = nnx.Linear(
            width, num_experts, use_bias=False, param_dtype=param_dtype, rngs=rngs
        )
        self.experts = SwigluExperts(
            num_experts, width, hidden, dtype=dtype, param_dtype=param_dtype, rngs=rngs
        )

    def __call__(
        self, x: Float[Array, "T W"], parallel: ExpertParallel = ONE_DEVICE
    ) -> tuple[Float[Array, "T W"], MoEStats]:
        """Mix the experts' answers.

        Args:
            x: float [T, width], this rank's tokens.
            parallel: where the experts are.

        Returns:
            float32 [T, width], and what there is to report.
        """
        routing = moe.route(self.router(x.astype(jnp.float32)), num_selected=self.num_selected)
        graphdef, params = nnx.split(self.experts)
        mixed = moe.mixture(
            lambda params, rows: nnx.merge(graphdef, params)(rows),
            params,
            x,
            routing,
            axis_name=parallel.expert_axis,
            codec=parallel.codec,
            wire_dtype=self.wire_dtype,
        )
        balance = moe.balance_loss(routing, mixed.counts, axis_name=parallel.batch_axes)
        return mixed.values, MoEStats(balance, mixed.counts, mixed.num_rounds)
