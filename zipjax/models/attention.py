"""Grouped-query attention over a cache: Llama, Mistral, Mixtral, Qwen3."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from pallas_kernels import dtype_from_name
from zipjax.models.cache import LayerCache, Step, write
from zipjax.models.causal_config import CausalConfig, GroupedConfig
from zipjax.models.layers import linear, rms_norm
from zipjax.models.rope import rotate

Angles = tuple[jax.Array, jax.Array]


class GroupedQueryAttention(nnx.Module):
    """Query head h reads key and value head h * num_kv_heads // num_heads."""

    def __init__(self, config: CausalConfig, *, rngs: nnx.Rngs):
        """Make the four projections, and norms of queries and keys where the model has them."""
        attention = config.attention
        assert isinstance(attention, GroupedConfig)
        self.head_dim, self.interleaved = attention.head_dim, config.rope.interleaved
        dtype, dim = dtype_from_name(config.dtype), attention.head_dim
        sizes = {"bias": attention.bias, "dtype": dtype, "rngs": rngs}
        self.q_proj = linear(config.width, attention.num_heads * dim, **sizes)
        self.k_proj = linear(config.width, attention.num_kv_heads * dim, **sizes)
        self.v_proj = linear(config.width, attention.num_kv_heads * dim, **sizes)
        self.o_proj = linear(attention.num_heads * dim, config.width, **sizes)
        self.q_norm = rms_norm(dim, config, rngs=rngs) if attention.qk_norm else None
        self.k_norm = rms_norm(dim, config, rngs=rngs) if attention.qk_norm else None

    def __call__(
        self,
        x: Float[Array, "B T W"],
        angles: Angles,
        step: Step,
        window: int | None,
        cache: LayerCache | None,
    ) -> tuple[Float[Array, "B T W"], LayerCache | None]:
        """Attend to this call's tokens and, with a cache, to those in it.

        Args:
            x: float [B, T, width].
            angles: from `rope_angles`.
            step: where the tokens stand.
            window: how many tokens each sees.
            cache: this layer's, or None.

        Returns:
            Float [B, T, width], and the cache with these tokens in it.
        """
        heads = (*x.shape[:-1], -1, self.head_dim)
        query, key = self.q_proj(x).reshape(heads), self.k_proj(x).reshape(heads)
        value = self.v_proj(x).reshape(heads)
        if self.q_norm is not None and self.k_norm is not None:
            query, key = self.q_norm(query), self.k_norm(key)
        query = rotate(query, angles, interleaved=self.interleaved)
        key = rotate(key, angles, interleaved=self.interleaved)
        if cache is not None:
            cache = {
                "key": write(cache["key"], key, step.slots),
                "value": write(cache["value"], value, step.slots),
            }
            key, value = cache["key"].astype(x.dtype), cache["value"].astype(x.dtype)
        seen = attend(query, key, value, step.visible[window], scale=self.head_dim**-0.5)
        return self.o_proj(seen.reshape(*x.shape[:-1], -1)), cache


def attend(
    query: Float[Array, "B T H D"],
    key: Float[Array, "B S K D"],
    value: Float[Array, "B S K V"],
    visible: Bool[Array, "B T S"],
    *,
    scale: float,
) -> Float[Array, "B T H V"]:
    """Softmax of the scaled products over the visible keys, in float32.

    A query that sees nothing (padding) gets finite numbers that mean nothing.

    Args:
        query: float [B, T, H, D].
        key: float [B, S, K, D]; K divides H.
        value: float [B, S, K, V].
        visible: bool [B, T, S].
        scale: factor of the products.

    Returns:
        The dtype of `value` [B, T, H, V].
    """
    batch, length, num_heads, dim = query.shape
    num_kv_heads = key.shape[2]
    grouped = query.reshape(batch, length, num_kv_heads, num_heads // num_kv_heads, dim)
    scores = jnp.einsum("btkgd,bskd->bkgts", grouped, key, preferred_element_type=jnp.float32)
    hidden = jnp.finfo(jnp.float32).min
    scores = jnp.where(visible[:, None, None], scores * scale, hidden)
    weights = jax.nn.softmax(scores, axis=-1).astype(value.dtype)
    seen = jnp.einsum("bkgts,bskv->btkgv", weights, value)
    return seen.reshape(batch, length, num_heads, -1)
