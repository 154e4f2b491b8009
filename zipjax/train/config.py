"""Everything that decides what a training run computes, as frozen dataclasses."""

from dataclasses import asdict, dataclass, field
from typing import Literal

from pallas_kernels import ArgumentError
from zipjax.models import DecoderConfig


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """AdamW with a linear warm-up and a cosine decay.

    Attributes:
        peak_rate: learning rate at the end of the warm-up, per step.
        final_rate: learning rate at the last step, as a share of `peak_rate`.
        warmup_steps: steps of the warm-up.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of squared gradients.
        weight_decay: pull towards zero, as a share of the learning rate; not for norm scales.
        clip_norm: gradients of a larger global norm are scaled down to it.
    """

    peak_rate: float = 3e-3
    final_rate: float = 0.1
    warmup_steps: int = 20
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    clip_norm: float = 1.0

    def __post_init__(self):
        for name in ("peak_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ArgumentError(f"{name} must be positive", got=getattr(self, name))
        for name in ("final_rate", "beta1", "beta2"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(f"{name} must be between 0 and 1", got=getattr(self, name))
        for name in ("warmup_steps", "weight_decay"):
            if getattr(self, name) < 0:
                raise ArgumentError(f"{name} must be at least 0", got=getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One run. Two runs of equal configs on equal text and mesh give equal parameters, bit for bit.

    Attributes:
        steps: optimizer steps in all.
        batch: sequences per step, over all devices.
        length: bytes per sequence.
        seed: decides initial parameters and the order of the text.
        balance_weight: how much the load-balancing loss counts beside the cross entropy.
        eval_every: steps between two looks at the validation text.
        eval_batches: batches of validation text per look.
        codec: how tokens and gradients travel; "exponent" compresses them, None does not.
        model: sizes of the model.
        optimizer: how it learns.
    """

    steps: int = 300
    batch: int = 16
    length: int = 256
    seed: int = 0
    balance_weight: float = 0.05
    eval_every: int = 50
    eval_batches: int = 4
    codec: Literal["exponent"] | None = "exponent"
    model: DecoderConfig = field(default_factory=DecoderConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self):
        for name in ("steps", "batch", "length", "eval_every", "eval_batches"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be at least 1", got=getattr(self, name))
        if self.seed < 0:
            raise ArgumentError("seed must be at least 0", got=self.seed)

    def to_json(self) -> dict:
        """The config as plain JSON values; equal configs give equal values."""
        return asdict(self)
