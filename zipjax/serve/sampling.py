"""How the next token is chosen from logits: the likeliest, or one drawn from the likely ones."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from pallas_kernels import ArgumentError
from zipjax.models import GenerationDefaults


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Draw tokens instead of taking the likeliest.

    Logits are divided by `temperature`; tokens are then ranked by them, equal ones by their number,
    the lower first. A token can be drawn if its rank is below `top_k` and if those before it in
    rank hold less than `top_p` of the probability of the `top_k`. So the first always can. Among
    those that can, each has its probability over their sum.

    Sequence b of a batch draws its token at position p with the key of `seed`, b and p, however the
    batch is padded.

    Attributes:
        temperature: positive; 1 leaves the model's probabilities, less sharpens them.
        top_k: at least 1; None: no such limit.
        top_p: in (0, 1]; 1: no such limit.
        seed: equal seeds give equal texts on the same backend.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if not 0 < self.temperature < float("inf"):
            raise ArgumentError(
                "temperature must be positive",
                got=self.temperature,
                fix="leave sampling out for the likeliest token",
            )
        if self.top_k is not None and self.top_k < 1:
            raise ArgumentError("top_k must be at least 1", got=self.top_k)
        if not 0 < self.top_p <= 1:
            raise ArgumentError("top_p must be above 0 and at most 1", got=self.top_p)
        if not 0 <= self.seed < 1 << 32:
            raise ArgumentError("seed must be in [0, 2**32)", got=self.seed)

    @classmethod
    def from_defaults(cls, defaults: GenerationDefaults, *, seed: int = 0) -> "Sampling | None":
        """As the model's makers want it; None where they want the likeliest token."""
        if not defaults.sampled or defaults.temperature == 0:
            return None
        return cls(
            temperature=defaults.temperature,
            top_k=defaults.top_k,
            top_p=defaults.top_p,
            seed=seed,
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Draw:
    """`Sampling` as arrays, so that other numbers need no other program; None is no limit."""

    temperature: Float[Array, ""]
    top_k: Int[Array, ""] | None
    top_p: Float[Array, ""] | None
    seed: jax.Array


def draw_from(sampling: Sampling | None) -> Draw | None:
    """The arrays of `sampling`; None, the likeliest token, stays None."""
    if sampling is None:
        return None
    return Draw(
        temperature=jnp.float32(sampling.temperature),
        top_k=None if sampling.top_k is None else jnp.int32(min(sampling.top_k, 2**31 - 1)),
        top_p=None if sampling.top_p == 1 else jnp.float32(sampling.top_p),
        seed=jnp.uint32(sampling.seed),
    )


def choose_tokens(
    logits: Float[Array, "B V"], positions: Int[Array, " B"], draw: Draw | None
) -> Int[Array, " B"]:
    """The next token of each sequence; -1 where its logits are not all numbers.

    Args:
        logits: float32 [B, V].
        positions: int32 [B], where the tokens will stand.
        draw: how; None: the likeliest, the lower of two equal ones.
    """
    if draw is None:
        tokens = jnp.argmax(logits, axis=-1)
    else:
        root = jax.random.key(draw.seed)
        rows = jnp.arange(logits.shape[0])
        keys = jax.vmap(lambda row, at: jax.random.fold_in(jax.random.fold_in(root, row), at))(
            rows, positions
        )
        tokens = jax.vmap(jax.random.categorical)(keys, filter_logits(logits, draw))
    return jnp.where(jnp.isnan(logits).any(axis=-1), -1, tokens).astype(jnp.int32)


def filter_logits(logits: Float[Array, "B V"], draw: Draw) -> Float[Array, "B V"]:
    """Logits over the temperature, -inf for tokens that cannot be drawn; see `Sampling`."""
    logits = logits / draw.temperature
    if draw.top_k is None and draw.top_p is None:
        return logits
    tokens = jnp.broadcast_to(lax.iota(jnp.int32, logits.shape[1])[None], logits.shape)
    # Stable and by the negative: of equal logits the lower token comes first.
    falling, order = lax.sort((-logits, tokens), dimension=1, is_stable=True, num_keys=1)
    ranked = -falling
    if draw.top_k is not None:
        ranked = jnp.where(tokens < draw.top_k, ranked, -jnp.inf)
    if draw.top_p is not None:
        shares = jax.nn.softmax(ranked, axis=-1)
        before = jnp.cumsum(shares, axis=-1) - shares
        ranked = jnp.where((before < draw.top_p) | (tokens == 0), ranked, -jnp.inf)
    rows = jnp.arange(logits.shape[0])[:, None]
    return jnp.zeros_like(logits).at[rows, order].set(ranked, unique_indices=True)
