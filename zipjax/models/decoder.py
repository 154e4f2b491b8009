"""A decoder-only mixture-of-experts transformer."""

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from jaxtyping import Array, Float, Int

from pallas_kernels import dtype_from_name
from zipjax.models.config import DecoderConfig
from zipjax.nn import ONE_DEVICE, ExpertParallel, GroupedAttention, MoE, MoEStats


class DecoderBlock(nnx.Module):
    """Attention, then a mixture of experts, each on a normed copy and added to the stream."""

    def __init__(self, config: DecoderConfig, *, rngs: nnx.Rngs):
        """Make one block of `config`."""
        dtype = dtype_from_name(config.compute_dtype)
        self.attention_norm = nnx.RMSNorm(config.width, rngs=rngs)
        self.attention = GroupedAttention(
            config.width,
            num_heads=config.num_heads,
            num_kv_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            rope_theta=config.rope_theta,
            dtype=dtype,
            rngs=rngs,
        )
        self.moe_norm = nnx.RMSNorm(config.width, rngs=rngs)
        self.moe = MoE(
            config.width,
            config.expert_hidden,
            num_experts=config.num_experts,
            num_selected=config.num_selected,
            dtype=dtype,
            wire_dtype=dtype_from_name(config.wire_dtype),
            rngs=rngs,
        )

    def __call__(
        self, x: Float[Array, "B L W"], parallel: ExpertParallel
    ) -> tuple[Float[Array, "B L W"], MoEStats]:
        """Add what this block has to say to the stream, float32 [B, L, width]."""
        x = x + self.attention(self.attention_norm(x)).astype(x.dtype)
        tokens = self.moe_norm(x).reshape(-1, x.shape[-1])
        mixed, stats = self.moe(tokens, parallel)
        return x + mixed.reshape(x.shape), stats


class MoEDecoder(nnx.Module):
    """Tokens to the logits of the next token. Embedding and output matrix are one.

    The blocks' parameters are stacked, `[num_layers, ...]`, and run by one loop: a program as
    long as one block compiles as fast as one block.
    """

    def __init__(self, config: DecoderConfig, *, rngs: nnx.Rngs):
        """Draw all parameters in float32.

        Args:
            config: the sizes.
            rngs: uses the stream "params".
        """
        self.config = config
        self.embed = nnx.Embed(config.vocab_size, config.width, rngs=rngs)
        self.blocks = _stack_blocks(config, rngs)
        self.norm = nnx.RMSNorm(config.width, rngs=rngs)

    def __call__(
        self, tokens: Int[Array, "B L"], parallel: ExpertParallel = ONE_DEVICE
    ) -> tuple[Float[Array, "B L V"], MoEStats]:
        """Predict.

        Args:
            tokens: int [B, L], in [0, vocab_size).
            parallel: where the batch and the experts are; one device by default.

        Returns:
            Logits, float32 [B, L, vocab_size], and the layers' reports, `[num_layers, ...]`.
        """
        table = self.embed.embedding[...]
        # A product with one-hot rows: the gradient of a gather is a scatter-add, which GPUs add
        # in any order. Highest precision, so that the product only picks.
        one_hot = jax.nn.one_hot(tokens, table.shape[0], dtype=table.dtype)
        x = jnp.dot(one_hot, table, precision=lax.Precision.HIGHEST)
        graphdef, params = nnx.split(self.blocks)
        x, stats = lax.scan(lambda x, layer: nnx.merge(graphdef, layer)(x, parallel), x, params)
        return jnp.dot(self.norm(x), table.T), stats


def _stack_blocks(config: DecoderConfig, rngs: nnx.Rngs) -> DecoderBlock:
    """`num_layers` blocks, drawn independently, as one block with stacked parameters."""

    @nnx.split_rngs(splits=config.num_layers)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def stack(rngs):
        return DecoderBlock(config, rngs=rngs)

    return stack(rngs)
