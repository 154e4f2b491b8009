"""A causal language model: the six published architectures are configurations of it."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, DTypeLike, Float, Int

from pallas_kernels import dtype_from_name
from zipjax.models.attention import Angles, GroupedQueryAttention
from zipjax.models.cache import Cache, LayerCache, Step, empty_cache, make_step
from zipjax.models.causal_config import CausalConfig, GroupedConfig
from zipjax.models.feed_forward import feed_forward
from zipjax.models.latent_attention import LatentAttention
from zipjax.models.layers import embedding, linear, rms_norm
from zipjax.models.rope import rope_angles


class CausalBlock(nnx.Module):
    """Attention, then feed-forward, each on a normed copy and added to the stream."""

    def __init__(self, config: CausalConfig, layer_idx: int, *, rngs: nnx.Rngs):
        """Make block `layer_idx` of `config`."""
        self.window = config.windows[layer_idx]
        grouped = isinstance(config.attention, GroupedConfig)
        attention = GroupedQueryAttention if grouped else LatentAttention
        self.input_layernorm = rms_norm(config.width, config, rngs=rngs)
        self.self_attn = attention(config, rngs=rngs)
        self.post_attention_layernorm = rms_norm(config.width, config, rngs=rngs)
        self.mlp = feed_forward(config, config.feed_forward[layer_idx], rngs=rngs)

    def __call__(
        self, x: Float[Array, "B T W"], angles: Angles, step: Step, cache: LayerCache | None
    ) -> tuple[Float[Array, "B T W"], LayerCache | None]:
        """Add what this block has to say to the stream."""
        heard, cache = self.self_attn(self.input_layernorm(x), angles, step, self.window, cache)
        x = x + heard
        return x + self.mlp(self.post_attention_layernorm(x)), cache


class CausalLM(nnx.Module):
    """Tokens to the logits of the next token, with or without a cache.

    A pure function of its arguments: the cache goes in and comes out. Submodules are called as in
    Hugging Face's checkpoints (`layers.0.self_attn.q_proj`), and are plain `nnx.Linear`,
    `nnx.Embed`, `nnx.RMSNorm` and `zipjax.nn.SwigluExperts`.

        model = CausalLM(config, rngs=nnx.Rngs(0))
        logits, _ = model(tokens)                                  # all at once

        cache = model.init_cache(batch_size=2, capacity=64)        # prefill, then one by one
        logits, cache = model(prompts, positions=positions, cache=cache)
        logits, cache = model(next_tokens, cache=cache)

    Prompts of unequal length are padded on either side; `positions` of padding is -1:

        prompts   [[5, 6, 7], [8, 9, 0]]
        positions [[0, 1, 2], [0, 1, -1]]
    """

    def __init__(self, config: CausalConfig, *, rngs: nnx.Rngs):
        """Draw all parameters in float32.

        Args:
            config: the sizes.
            rngs: uses the stream "params".
        """
        self.config = config
        self.embed_tokens = embedding(config, rngs=rngs)
        self.layers = nnx.List(
            [CausalBlock(config, idx, rngs=rngs) for idx in range(config.num_layers)]
        )
        self.norm = rms_norm(config.width, config, rngs=rngs)
        dtype = dtype_from_name(config.dtype)
        sizes = {"bias": False, "dtype": dtype, "rngs": rngs}
        self.lm_head = None if config.tied else linear(config.width, config.vocab_size, **sizes)

    def init_cache(
        self, batch_size: int, capacity: int, *, dtype: DTypeLike | None = None
    ) -> Cache:
        """An empty cache; see `Cache` and `empty_cache`."""
        return empty_cache(self.config, batch_size, capacity, dtype=dtype)

    def __call__(
        self,
        tokens: Int[Array, "B T"],
        *,
        positions: Int[Array, "B T"] | None = None,
        cache: Cache | None = None,
        columns: Int[Array, "B L"] | None = None,
    ) -> tuple[Float[Array, "B L V"], Cache | None]:
        """Predict.

        A token sees the tokens at its own and lower positions (within its layer's window) of its
        sequence: those of this call and those in the cache. Positions of a sequence must be written
        in order, without holes, and lie below the cache's capacity: the logits of one beyond it
        are NaN.

        Args:
            tokens: int [B, T], in [0, vocab_size); anything where the position is negative.
            positions: int [B, T], negative for padding; by default 0 to T - 1, or with a cache the
                T positions from `cache.num_written` of each sequence on.
            cache: what was seen before, or None.
            columns: int [B, L], which columns of `tokens` to give logits of, for prompts of which
                only the last token counts; all T by default.

        Returns:
            Logits, float32 [B, L, vocab_size], those of padding meaningless, and the cache with
            these tokens in it, or None.
        """
        positions = _positions(tokens, positions, cache)
        angles = rope_angles(positions, self._rope_dim(), self.config.rope)
        capacity = None if cache is None else cache.capacity
        step = make_step(positions, capacity, self.config.windows)
        x = self.embed_tokens(jnp.where(positions < 0, 0, tokens))
        layers: list[LayerCache | None] = []
        for idx, block in enumerate(self.layers):
            x, layer = block(x, angles, step, None if cache is None else cache.layers[idx])
            layers.append(layer)
        if capacity is not None:
            x = jnp.where((positions < capacity)[..., None], x, jnp.nan)
        if columns is not None:
            x = jnp.take_along_axis(x, columns[..., None], axis=1)
        return self._logits(x), _next_cache(cache, layers, positions)

    def _logits(self, x: Float[Array, "B L W"]) -> Float[Array, "B L V"]:
        x = self.norm(x)
        logits = self.embed_tokens.attend(x) if self.lm_head is None else self.lm_head(x)
        return logits.astype(jnp.float32)

    def _rope_dim(self) -> int:
        attention = self.config.attention
        if isinstance(attention, GroupedConfig):
            return attention.head_dim
        return attention.rope_dim


def _positions(
    tokens: Int[Array, "B T"], positions: Int[Array, "B T"] | None, cache: Cache | None
) -> Int[Array, "B T"]:
    if positions is not None:
        return jnp.asarray(positions, jnp.int32)
    start = jnp.zeros(tokens.shape[0], jnp.int32) if cache is None else cache.num_written
    return start[:, None] + jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]


def _next_cache(
    cache: Cache | None, layers: list[LayerCache | None], positions: Int[Array, "B T"]
) -> Cache | None:
    if cache is None:
        return None
    num_written = jnp.maximum(cache.num_written, positions.max(axis=1) + 1)
    return Cache(tuple(layer for layer in layers if layer is not None), num_written)


def abstract_model(config: CausalConfig) -> CausalLM:
    """The model with `jax.ShapeDtypeStruct`s for parameters; takes no memory."""
    return nnx.eval_shape(lambda: CausalLM(config, rngs=nnx.Rngs(0)))
