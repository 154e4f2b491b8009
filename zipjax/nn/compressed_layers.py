"""The twins of Flax's layers: the same attributes and results, matrices compressed.

A twin is made from its plain layer (`compress_model`, `set_compressed`), never drawn: a random
matrix is not worth compressing. It is a subclass of its plain layer, so `isinstance` holds.
"""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zipjax.nn.decoded import call_decoded
from zipjax.nn.fused_linear import can_multiply_fused, multiply_fused
from zipjax.nn.row_lookup import can_look_up, look_up


class CompressedLinear(nnx.Linear):
    """`nnx.Linear` whose `kernel` is a `CompressedParam`."""

    def __call__(self, inputs: Float[Array, "*B K"], out_sharding: Any = None) -> Array:
        """Multiply by the decoded kernel: the bits of `nnx.Linear`.

        After `zipjax.use_kernels`, by the fused kernel instead.
        """
        if out_sharding is None and can_multiply_fused(self, inputs):
            return multiply_fused(self, inputs)
        return call_decoded(nnx.Linear.__call__, self, inputs, out_sharding=out_sharding)


class CompressedLinearGeneral(nnx.LinearGeneral):
    """`nnx.LinearGeneral` whose `kernel` is a `CompressedParam`."""

    def __call__(self, inputs: Float[Array, "*B"], out_sharding: Any = None) -> Array:
        """Contract with the decoded kernel: the bits of `nnx.LinearGeneral`."""
        return call_decoded(nnx.LinearGeneral.__call__, self, inputs, out_sharding=out_sharding)


class CompressedEinsum(nnx.Einsum):
    """`nnx.Einsum` whose `kernel` is a `CompressedParam`."""

    def __call__(
        self, inputs: Float[Array, "*B"], einsum_str: str | None = None, out_sharding: Any = None
    ) -> Array:
        """Contract with the decoded kernel: the bits of `nnx.Einsum`."""
        return call_decoded(
            nnx.Einsum.__call__, self, inputs, einsum_str=einsum_str, out_sharding=out_sharding
        )


class CompressedConv(nnx.Conv):
    """`nnx.Conv` whose `kernel` is a `CompressedParam`."""

    def __call__(self, inputs: Float[Array, "*B"], out_sharding: Any = None) -> Array:
        """Convolve with the decoded kernel: the bits of `nnx.Conv`."""
        return call_decoded(nnx.Conv.__call__, self, inputs, out_sharding=out_sharding)


class CompressedEmbed(nnx.Embed):
    """`nnx.Embed` whose `embedding` is a `CompressedParam`."""

    def __call__(self, inputs: Int[Array, "*B"], out_sharding: Any = None) -> Array:
        """Look rows up, decoding no more than these: the bits of `nnx.Embed`."""
        is_index = jnp.issubdtype(inputs.dtype, jnp.integer)
        if is_index and out_sharding is None and can_look_up(self.embedding, inputs):
            return look_up(self, inputs)
        return call_decoded(nnx.Embed.__call__, self, inputs, out_sharding=out_sharding)

    def attend(self, query: Float[Array, "*B F"], out_sharding: Any = None) -> Array:
        """Multiply by the transposed table, as a tied head does: the bits of `nnx.Embed.attend`."""
        return call_decoded(nnx.Embed.attend, self, query, out_sharding=out_sharding)


class CompressedLoRALinear(nnx.LoRALinear, CompressedLinear):
    """`nnx.LoRALinear` whose `kernel` is a `CompressedParam`; its adapter stays as it is."""
