"""A tiny configuration of every architecture, with every option that it has; and their folders."""

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from flax import nnx

from zipjax.files.safetensors_file import (
    new_safetensors_header,
    open_safetensors,
    safetensors_prefix,
)
from zipjax.models import (
    CausalConfig,
    CausalLM,
    GroupedConfig,
    LatentConfig,
    MlpConfig,
    RopeConfig,
    SparseConfig,
    abstract_model,
)

_BASE = {"vocab_size": 64, "width": 32, "dtype": "float32"}
_GROUPED = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8}
_MLP = MlpConfig(hidden=48)
_LATENT = {"num_heads": 4, "latent_rank": 12, "nope_dim": 8, "rope_dim": 4, "value_dim": 6}
_ROUTED = SparseConfig(
    num_experts=8,
    num_selected=3,
    hidden=16,
    scoring="sigmoid",
    scale=2.5,
    num_groups=4,
    num_groups_selected=2,
    shared_hidden=32,
)

CASES = {
    "llama": CausalConfig(
        architecture="llama",
        attention=GroupedConfig(**_GROUPED, bias=True),
        feed_forward=(MlpConfig(hidden=48, bias=True),) * 2,
        windows=(None, None),
        rope=RopeConfig(theta=500_000.0),
        norm_epsilon=1e-5,
        **_BASE,
    ),
    "llama-tied": CausalConfig(
        architecture="llama",
        attention=GroupedConfig(**_GROUPED),
        feed_forward=(_MLP, _MLP),
        windows=(None, None),
        rope=RopeConfig(),
        tied=True,
        **_BASE,
    ),
    "mistral": CausalConfig(
        architecture="mistral",
        attention=GroupedConfig(**_GROUPED),
        feed_forward=(_MLP, _MLP),
        windows=(5, 5),
        rope=RopeConfig(),
        **_BASE,
    ),
    "qwen3": CausalConfig(
        architecture="qwen3",
        attention=GroupedConfig(**_GROUPED, qk_norm=True),
        feed_forward=(_MLP, _MLP),
        windows=(None, 4),
        rope=RopeConfig(theta=1e6),
        **_BASE,
    ),
    "mixtral": CausalConfig(
        architecture="mixtral",
        attention=GroupedConfig(**_GROUPED),
        feed_forward=(SparseConfig(num_experts=4, num_selected=2, hidden=24),) * 2,
        windows=(None, None),
        rope=RopeConfig(theta=1e6),
        **_BASE,
    ),
    "qwen3_moe": CausalConfig(
        architecture="qwen3_moe",
        attention=GroupedConfig(**_GROUPED, qk_norm=True),
        feed_forward=(
            _MLP,
            SparseConfig(num_experts=6, num_selected=3, hidden=16, normalized=False),
            SparseConfig(num_experts=6, num_selected=3, hidden=16, normalized=False),
        ),
        windows=(None, None, None),
        rope=RopeConfig(),
        **_BASE,
    ),
    "deepseek_v3": CausalConfig(
        architecture="deepseek_v3",
        attention=LatentConfig(**_LATENT, query_rank=16),
        feed_forward=(_MLP, _ROUTED),
        windows=(None, None),
        rope=RopeConfig(interleaved=True),
        **_BASE,
    ),
    "deepseek_v3-full-query": CausalConfig(
        architecture="deepseek_v3",
        attention=LatentConfig(**_LATENT, query_rank=None),
        feed_forward=(_MLP, _ROUTED),
        windows=(None, None),
        rope=RopeConfig(interleaved=False),
        **_BASE,
    ),
}
"""By name; the architecture stands before the first dash."""

ROPES = {
    "linear": RopeConfig(kind="linear", factor=2.5, max_positions=16),
    "dynamic": RopeConfig(kind="dynamic", factor=3.0, max_positions=16),
    "llama3": RopeConfig(
        kind="llama3",
        theta=500.0,
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_positions=64,
        max_positions=512,
    ),
    "yarn": RopeConfig(
        kind="yarn",
        theta=100.0,
        factor=4.0,
        original_max_positions=64,
        max_positions=256,
        attention_factor=1.25,
    ),
    "yarn-unrounded": RopeConfig(
        kind="yarn",
        theta=100.0,
        factor=4.0,
        original_max_positions=64,
        max_positions=256,
        beta_fast=16.0,
        beta_slow=2.0,
        truncate=False,
        attention_factor=1.0,
    ),
}
"""Every way to stretch positions, with sizes at which it does something within 24 tokens."""


def draw_model(config: CausalConfig, *, dtype=np.float32, seed: int = 0) -> CausalLM:
    """A model of which no parameter, not even a norm's or a bias, is trivial."""
    rng = np.random.default_rng(seed)
    model = abstract_model(config)

    def draw(param):
        if len(param.shape) == 1:
            x = 1 + 0.1 * rng.normal(size=param.shape)
        else:
            x = 1.4 * param.shape[-2] ** -0.5 * rng.normal(size=param.shape)
        return jax.numpy.asarray(x.astype(dtype))

    nnx.update(model, jax.tree.map(draw, nnx.state(model, nnx.Param)))
    return model


def write_tensors(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Write `model.safetensors` of a folder again after `change` of its tensors."""
    path = folder / "model.safetensors"
    tensors = {source.name: source.read() for source in open_safetensors(path)[1]}
    change(tensors)
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].itemsize))
    header = new_safetensors_header({name: (x.dtype, x.shape) for name, x in tensors.items()}, {})
    path.write_bytes(safetensors_prefix(header) + b"".join(x.tobytes() for x in tensors.values()))
