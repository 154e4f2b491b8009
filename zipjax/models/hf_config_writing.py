"""Write a `config.json` that `config_from_hf`, and transformers, read back as the same model."""

from typing import Any

from pallas_kernels import UnsupportedError
from zipjax.models.causal_config import (
    CausalConfig,
    LatentConfig,
    MlpConfig,
    RopeConfig,
    SparseConfig,
)
from zipjax.models.hf_config import config_from_hf

_CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
}
_ROPE_FIELDS = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", "beta_fast", "beta_slow", "truncate", "attention_factor"),
}


def config_to_hf(config: CausalConfig) -> dict[str, Any]:
    """The fields of a `config.json` for `config`.

    Raises:
        UnsupportedError: a configuration that its architecture's fields cannot express.
    """
    values: dict[str, Any] = {
        "architectures": [_CLASSES[config.architecture]],
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        "hidden_size": config.width,
        "num_hidden_layers": config.num_layers,
        "hidden_act": "silu",
        "max_position_embeddings": config.rope.max_positions,
        "rms_norm_eps": config.norm_epsilon,
        "tie_word_embeddings": config.tied,
        "torch_dtype": config.dtype,
        "rope_theta": config.rope.theta,
        "rope_scaling": _rope(config.rope),
    }
    values |= _attention(config) | _feed_forward(config) | _windows(config)
    if config_from_hf(values) != config:
        raise UnsupportedError(
            f"the configuration must be one that {config.architecture} can have", got=config
        )
    return values


def _rope(rope: RopeConfig) -> dict[str, Any] | None:
    if rope.kind == "default":
        return None
    values: dict[str, Any] = {"rope_type": rope.kind}
    values |= {name: getattr(rope, name) for name in _ROPE_FIELDS[rope.kind]}
    if rope.kind in ("llama3", "yarn"):
        values["original_max_position_embeddings"] = rope.original_max_positions
    return values


def _attention(config: CausalConfig) -> dict[str, Any]:
    attention = config.attention
    if isinstance(attention, LatentConfig):
        return {
            "num_attention_heads": attention.num_heads,
            "num_key_value_heads": attention.num_heads,
            "q_lora_rank": attention.query_rank,
            "kv_lora_rank": attention.latent_rank,
            "qk_nope_head_dim": attention.nope_dim,
            "qk_rope_head_dim": attention.rope_dim,
            "v_head_dim": attention.value_dim,
            "attention_bias": attention.bias,
            "rope_interleave": config.rope.interleaved,
        }
    values: dict[str, Any] = {
        "num_attention_heads": attention.num_heads,
        "num_key_value_heads": attention.num_kv_heads,
        "head_dim": attention.head_dim,
    }
    if config.architecture not in ("mistral", "mixtral"):
        values["attention_bias"] = attention.bias
    return values


def _feed_forward(config: CausalConfig) -> dict[str, Any]:
    layers = config.feed_forward
    dense = [layer for layer in layers if isinstance(layer, MlpConfig)]
    sparse = [layer for layer in layers if isinstance(layer, SparseConfig)]
    values: dict[str, Any] = {"intermediate_size": dense[0].hidden if dense else sparse[0].hidden}
    if config.architecture == "llama":
        values["mlp_bias"] = dense[0].bias
    if not sparse:
        return values
    values["num_experts_per_tok"] = sparse[0].num_selected
    if config.architecture == "mixtral":
        return values | {"num_local_experts": sparse[0].num_experts}
    values |= {
        "moe_intermediate_size": sparse[0].hidden,
        "norm_topk_prob": sparse[0].normalized,
    }
    if config.architecture == "qwen3_moe":
        dense_layers = [idx for idx, layer in enumerate(layers) if isinstance(layer, MlpConfig)]
        return values | {"num_experts": sparse[0].num_experts, "mlp_only_layers": dense_layers}
    return values | {
        "n_routed_experts": sparse[0].num_experts,
        "n_shared_experts": sparse[0].shared_hidden // sparse[0].hidden,
        "n_group": sparse[0].num_groups,
        "topk_group": sparse[0].num_groups_selected,
        "routed_scaling_factor": sparse[0].scale,
        "first_k_dense_replace": len(dense),
    }


def _windows(config: CausalConfig) -> dict[str, Any]:
    window = max((window for window in config.windows if window is not None), default=None)
    if config.architecture in ("llama", "deepseek_v3"):
        return {}
    if config.architecture in ("mistral", "mixtral"):
        return {"sliding_window": window}
    values: dict[str, Any] = {"sliding_window": window, "use_sliding_window": window is not None}
    if config.architecture == "qwen3":
        values["layer_types"] = [
            "full_attention" if own is None else "sliding_attention" for own in config.windows
        ]
    return values
