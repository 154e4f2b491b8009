"""The sizes of a decoder, checked where they are written down."""

from dataclasses import dataclass

from pallas_kernels import ArgumentError, dtype_from_name


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """A decoder-only transformer whose feed-forward layers are mixtures of experts.

    Attributes:
        vocab_size: number of tokens; 256 for bytes.
        width: elements of a token's vector.
        num_layers: blocks of attention and mixture.
        num_heads: query heads.
        num_kv_heads: key and value heads; divides `num_heads`.
        head_dim: elements of a head; even.
        num_experts: experts per layer.
        num_selected: experts per token.
        expert_hidden: elements between an expert's matrices.
        rope_theta: base of the wavelengths of the rotary embedding.
        compute_dtype: dtype of matrix products; parameters are float32.
        wire_dtype: dtype in which tokens travel to the experts and back.
    """

    vocab_size: int = 256
    width: int = 128
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    num_experts: int = 8
    num_selected: int = 2
    expert_hidden: int = 128
    rope_theta: float = 10_000.0
    compute_dtype: str = "float32"
    wire_dtype: str = "bfloat16"

    def __post_init__(self):
        for name, value in vars(self).items():
            if isinstance(value, int | float) and value <= 0:
                raise ArgumentError(f"{name} must be positive", got=value)
        if self.num_heads % self.num_kv_heads:
            raise ArgumentError(
                f"num_kv_heads must divide num_heads={self.num_heads}", got=self.num_kv_heads
            )
        if self.head_dim % 2:
            raise ArgumentError("head_dim must be even", got=self.head_dim)
        if self.num_selected > self.num_experts:
            raise ArgumentError(
                f"num_selected must be at most num_experts={self.num_experts}",
                got=self.num_selected,
            )
        dtype_from_name(self.compute_dtype)
        dtype_from_name(self.wire_dtype)
