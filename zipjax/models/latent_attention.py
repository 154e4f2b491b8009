"""Multi-head latent attention (DeepSeek-V2, section 2.1), caching the latent alone."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from pallas_kernels import dtype_from_name
from zipjax.models.attention import Angles, attend
from zipjax.models.cache import LayerCache, Step, write
from zipjax.models.causal_config import CausalConfig, LatentConfig
from zipjax.models.layers import linear, rms_norm
from zipjax.models.rope import rotate


class LatentAttention(nnx.Module):
    """Keys and values of all heads are made of one small latent a token, and one rotated key.

    The cache holds latent and rotated key: 576 elements a token in DeepSeek-V3 instead of 40,960.
    They become keys and values again at every call.
    """

    def __init__(self, config: CausalConfig, *, rngs: nnx.Rngs):
        """Make the projections down and up, and the norms between them."""
        sizes = config.attention
        assert isinstance(sizes, LatentConfig)
        self.sizes, self.interleaved = sizes, config.rope.interleaved
        dtype, width = dtype_from_name(config.dtype), config.width
        down = {"bias": sizes.bias, "dtype": dtype, "rngs": rngs}
        up = {"bias": False, "dtype": dtype, "rngs": rngs}
        query_features = sizes.num_heads * (sizes.nope_dim + sizes.rope_dim)
        rank = sizes.query_rank
        if rank is None:
            self.q_proj = linear(width, query_features, **up)
        else:
            self.q_a_proj = linear(width, rank, **down)
            self.q_a_layernorm = rms_norm(rank, config, rngs=rngs)
            self.q_b_proj = linear(rank, query_features, **up)
        self.kv_a_proj_with_mqa = linear(width, sizes.latent_rank + sizes.rope_dim, **down)
        self.kv_a_layernorm = rms_norm(sizes.latent_rank, config, rngs=rngs)
        kv_features = sizes.num_heads * (sizes.nope_dim + sizes.value_dim)
        self.kv_b_proj = linear(sizes.latent_rank, kv_features, **up)
        self.o_proj = linear(sizes.num_heads * sizes.value_dim, width, **down)

    def __call__(
        self,
        x: Float[Array, "B T W"],
        angles: Angles,
        step: Step,
        window: int | None,
        cache: LayerCache | None,
    ) -> tuple[Float[Array, "B T W"], LayerCache | None]:
        """Attend; arguments and result as for `GroupedQueryAttention`."""
        sizes = self.sizes
        latent, rope_key = self._latent(x, angles)
        if cache is not None:
            cache = {
                "latent": write(cache["latent"], latent, step.slots),
                "rope_key": write(cache["rope_key"], rope_key, step.slots),
            }
            latent = cache["latent"].astype(x.dtype)
            rope_key = cache["rope_key"].astype(x.dtype)
        key, value = self._expand(latent, rope_key)
        scale = sizes.softmax_factor * (sizes.nope_dim + sizes.rope_dim) ** -0.5
        seen = attend(self._query(x, angles), key, value, step.visible[window], scale=scale)
        return self.o_proj(seen.reshape(*x.shape[:-1], -1)), cache

    def _query(self, x: Float[Array, "B T W"], angles: Angles) -> Float[Array, "B T H D"]:
        if self.sizes.query_rank is None:
            query = self.q_proj(x)
        else:
            query = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        query = query.reshape(*x.shape[:-1], self.sizes.num_heads, -1)
        plain, rotated = jnp.split(query, [self.sizes.nope_dim], axis=-1)
        rotated = rotate(rotated, angles, interleaved=self.interleaved)
        return jnp.concatenate([plain, rotated], axis=-1)

    def _latent(
        self, x: Float[Array, "B T W"], angles: Angles
    ) -> tuple[Float[Array, "B T R"], Float[Array, "B T D"]]:
        both = self.kv_a_proj_with_mqa(x)
        latent, rope_key = jnp.split(both, [self.sizes.latent_rank], axis=-1)
        rotated = rotate(rope_key[:, :, None], angles, interleaved=self.interleaved)
        return self.kv_a_layernorm(latent), rotated[:, :, 0]

    def _expand(
        self, latent: Float[Array, "B S R"], rope_key: Float[Array, "B S D"]
    ) -> tuple[Float[Array, "B S H D"], Float[Array, "B S H V"]]:
        sizes = self.sizes
        both = self.kv_b_proj(latent).reshape(*latent.shape[:-1], sizes.num_heads, -1)
        plain, value = jnp.split(both, [sizes.nope_dim], axis=-1)
        shared = jnp.broadcast_to(rope_key[:, :, None], (*plain.shape[:-1], sizes.rope_dim))
        return jnp.concatenate([plain, shared], axis=-1), value
