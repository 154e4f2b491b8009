"""The sizes and switches of a causal language model, whatever file they came from."""

from dataclasses import dataclass
from typing import Literal

from pallas_kernels import ArgumentError, dtype_from_name

RopeKind = Literal["default", "linear", "dynamic", "llama3", "yarn"]
Scoring = Literal["softmax", "sigmoid"]


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """How positions become angles; `rope.py` has the formulas.

    Attributes:
        theta: base of the wavelengths, dimensionless.
        kind: how the wavelengths are stretched for positions beyond the training length.
        factor: how many times longer the positions are than in training.
        max_positions: training length, for "dynamic".
        original_max_positions: training length before stretching, for "llama3" and "yarn".
        low_freq_factor: "llama3": wavelengths above original / this are stretched by `factor`.
        high_freq_factor: "llama3": wavelengths below original / this stay.
        beta_fast: "yarn": turns over the training length above which a pair stays.
        beta_slow: "yarn": turns below which a pair is stretched by `factor`.
        truncate: "yarn": whether the two borders are rounded outwards to whole pairs.
        attention_factor: "yarn": what cosines and sines are multiplied by.
        interleaved: whether neighbours (2i, 2i + 1) form a pair, instead of (i, i + D / 2).
    """

    theta: float = 10_000.0
    kind: RopeKind = "default"
    factor: float = 1.0
    max_positions: int = 2048
    original_max_positions: int = 2048
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0
    interleaved: bool = False


@dataclass(frozen=True, kw_only=True)
class GroupedConfig:
    """Grouped-query attention (Ainslie et al. 2023).

    Attributes:
        num_heads: query heads.
        num_kv_heads: key and value heads; divides `num_heads`.
        head_dim: elements of a head; even.
        bias: whether the projections have biases.
        qk_norm: whether queries and keys are normed, head by head (Qwen3).
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    bias: bool = False
    qk_norm: bool = False

    def __post_init__(self):
        _require_positive(self)
        if self.num_heads % self.num_kv_heads:
            raise ArgumentError(
                f"num_kv_heads must divide num_heads={self.num_heads}", got=self.num_kv_heads
            )
        if self.head_dim % 2:
            raise ArgumentError("head_dim must be even", got=self.head_dim)


@dataclass(frozen=True, kw_only=True)
class LatentConfig:
    """Multi-head latent attention (DeepSeek-V2, section 2.1).

    Attributes:
        num_heads: heads.
        query_rank: elements of the latent query; None for a full projection.
        latent_rank: elements of the latent that keys and values are made of, and that is cached.
        nope_dim: elements of a query or key that positions do not touch.
        rope_dim: elements of a query or key that are rotated; even.
        value_dim: elements of a value.
        softmax_factor: what the scale 1 / sqrt(nope_dim + rope_dim) is multiplied by.
        bias: whether the projections down, and that out, have biases.
    """

    num_heads: int
    query_rank: int | None
    latent_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    softmax_factor: float = 1.0
    bias: bool = False

    def __post_init__(self):
        _require_positive(self)
        if self.rope_dim % 2:
            raise ArgumentError("rope_dim must be even", got=self.rope_dim)


@dataclass(frozen=True, kw_only=True)
class MlpConfig:
    """A SwiGLU network of `hidden` elements between its matrices."""

    hidden: int
    bias: bool = False

    def __post_init__(self):
        _require_positive(self)


@dataclass(frozen=True, kw_only=True)
class SparseConfig:
    """A mixture of SwiGLU experts; no token is ever dropped.

    Attributes:
        num_experts: E.
        num_selected: experts per token.
        hidden: elements between an expert's matrices.
        scoring: "softmax" over all experts, or "sigmoid" of each with a correction that counts for
            the choice only (DeepSeek-V3, section 2.1.2).
        normalized: whether the chosen scores are divided by their sum.
        scale: what the weights are multiplied by at last.
        num_groups: groups of neighbouring experts, "sigmoid" only.
        num_groups_selected: groups that a token may choose its experts from.
        shared_hidden: elements between the matrices of the expert that sees every token; 0: none.
    """

    num_experts: int
    num_selected: int
    hidden: int
    scoring: Scoring = "softmax"
    normalized: bool = True
    scale: float = 1.0
    num_groups: int = 1
    num_groups_selected: int = 1
    shared_hidden: int = 0

    def __post_init__(self):
        _require_positive(self, but=("shared_hidden",))
        if self.num_experts % self.num_groups:
            raise ArgumentError(
                f"num_groups must divide num_experts={self.num_experts}", got=self.num_groups
            )
        room = self.num_experts // self.num_groups * self.num_groups_selected
        if self.num_groups_selected > self.num_groups or self.num_selected > room:
            raise ArgumentError(
                "the groups selected must hold num_selected experts",
                got=f"{self.num_selected} of {room} experts",
            )


@dataclass(frozen=True, kw_only=True)
class CausalConfig:
    """A decoder-only transformer with pre-norm blocks of attention and feed-forward.

    Attributes:
        architecture: its name in `config.json`, "llama" for example.
        vocab_size: number of tokens.
        width: elements of a token's vector.
        attention: the same in every layer.
        feed_forward: one for each layer.
        windows: for each layer, how many tokens a token sees, itself included; None for all.
        rope: how positions become angles.
        norm_epsilon: what is added to the mean square before its root is taken.
        tied: whether the output matrix is the embedding.
        dtype: dtype of the computation; parameters keep the dtype that they have in the file.
    """

    architecture: str
    vocab_size: int
    width: int
    attention: GroupedConfig | LatentConfig
    feed_forward: tuple[MlpConfig | SparseConfig, ...]
    windows: tuple[int | None, ...]
    rope: RopeConfig
    norm_epsilon: float = 1e-6
    tied: bool = False
    dtype: str = "bfloat16"

    def __post_init__(self):
        _require_positive(self)
        if len(self.windows) != self.num_layers:
            raise ArgumentError(
                f"windows must be one for each of the {self.num_layers} layers",
                got=len(self.windows),
            )
        dtype_from_name(self.dtype)

    @property
    def num_layers(self) -> int:
        """Number of blocks."""
        return len(self.feed_forward)


def _require_positive(config: object, *, but: tuple[str, ...] = ()) -> None:
    for name, value in vars(config).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and name not in but and value <= 0:
            raise ArgumentError(f"{name} must be positive", got=value)
