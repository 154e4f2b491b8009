"""Runs small enough for a test."""

from pathlib import Path

import numpy as np

from zipjax.models import DecoderConfig
from zipjax.train import OptimizerConfig, RunOptions, Text, TrainConfig

TINY = DecoderConfig(
    width=16,
    num_layers=2,
    num_heads=2,
    num_kv_heads=1,
    head_dim=8,
    num_experts=4,
    expert_hidden=16,
)


def tiny_config(**changes) -> TrainConfig:
    """Seconds on one device."""
    settings = {
        "steps": 6,
        "batch": 4,
        "length": 16,
        "eval_every": 3,
        "eval_batches": 2,
        "model": TINY,
        "optimizer": OptimizerConfig(warmup_steps=2),
    }
    return TrainConfig(**(settings | changes))


def tiny_text(seed: int = 0) -> Text:
    """Words of a small language, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    words = [b"alpha ", b"beta ", b"gamma ", b"delta\n"]
    content = b"".join(words[i] for i in rng.integers(0, 4, 2000))
    both = np.frombuffer(content, np.uint8)
    return Text(both[:9000], both[9200:], "a small language", 1)


def quietly(out: Path | None, **changes) -> RunOptions:
    """Options of a run that says nothing."""
    return RunOptions(out=out, quiet=True, **changes)
