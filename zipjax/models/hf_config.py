"""Read the `config.json` of a Hugging Face folder: the six architectures that zipjax runs."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pallas_kernels import UnsupportedError
from zipjax.files.wording import did_you_mean, shown
from zipjax.models.causal_config import (
    CausalConfig,
    GroupedConfig,
    LatentConfig,
    MlpConfig,
    SparseConfig,
)
from zipjax.models.hf_fields import Fields
from zipjax.models.hf_rope import rope_from_fields

_DTYPES = ("bfloat16", "float16", "float32")


def config_from_hf(
    values: Mapping[str, Any], *, ignored_fields: tuple[str, ...] = ()
) -> CausalConfig:
    """The configuration that a `config.json` describes.

    Args:
        values: the parsed JSON.
        ignored_fields: fields that zipjax does not know and that change no numbers.

    Raises:
        UnsupportedError: an architecture or an option that zipjax does not run; names the field.
        FormatError: a field is missing or no such value.
    """
    fields = Fields(values)
    architecture = fields.text("model_type")
    if architecture not in _ARCHITECTURES:
        raise UnsupportedError(
            f"model_type in config.json must be one of {', '.join(_ARCHITECTURES)}",
            got=shown(architecture),
            fix=did_you_mean(architecture, _ARCHITECTURES),
        )
    fields.require("hidden_act", "silu")
    fields.require("quantization_config")
    config = _ARCHITECTURES[architecture](fields)
    fields.require_no_more(ignored_fields)
    return config


def _common(
    fields: Fields, *, theta: float = 10_000.0, epsilon: float = 1e-6, **own: Any
) -> CausalConfig:
    rope, _ = rope_from_fields(fields, theta=theta)
    return CausalConfig(
        architecture=fields.text("model_type"),
        vocab_size=fields.integer("vocab_size"),
        width=fields.integer("hidden_size"),
        rope=rope,
        norm_epsilon=fields.number("rms_norm_eps", epsilon),
        tied=fields.flag("tie_word_embeddings", False),
        dtype=_dtype(fields),
        **own,
    )


def _dtype(fields: Fields) -> str:
    """What the model computes in; float32 where nothing is said, as PyTorch has it."""
    name = fields.text("dtype", fields.text("torch_dtype", "float32"))
    name = name.removeprefix("torch.")
    if name not in _DTYPES:
        raise UnsupportedError(
            f"dtype in config.json must be one of {', '.join(_DTYPES)}", got=shown(name)
        )
    return name


def _grouped(fields: Fields, *, head_dim: int | None = None, **own: Any) -> GroupedConfig:
    num_heads = fields.integer("num_attention_heads")
    if head_dim is None:
        head_dim = fields.integer("hidden_size") // num_heads
    return GroupedConfig(
        num_heads=num_heads,
        num_kv_heads=fields.integer("num_key_value_heads", num_heads),
        head_dim=fields.integer("head_dim", head_dim),
        **own,
    )


def _dense(fields: Fields, **own: Any) -> tuple[MlpConfig, ...]:
    mlp = MlpConfig(hidden=fields.integer("intermediate_size"), **own)
    return (mlp,) * fields.integer("num_hidden_layers")


def _everywhere(fields: Fields, window: int | None) -> tuple[int | None, ...]:
    return (window,) * fields.integer("num_hidden_layers")


def _llama(fields: Fields) -> CausalConfig:
    return _common(
        fields,
        attention=_grouped(fields, bias=fields.flag("attention_bias", False)),
        feed_forward=_dense(fields, bias=fields.flag("mlp_bias", False)),
        windows=_everywhere(fields, None),
    )


def _mistral(fields: Fields) -> CausalConfig:
    return _common(
        fields,
        attention=_grouped(fields),
        feed_forward=_dense(fields),
        windows=_everywhere(fields, fields.optional_integer("sliding_window", 4096)),
    )


def _qwen3(fields: Fields) -> CausalConfig:
    bias = fields.flag("attention_bias", False)
    return _common(
        fields,
        attention=_grouped(fields, head_dim=128, bias=bias, qk_norm=True),
        feed_forward=_dense(fields),
        windows=_qwen3_windows(fields),
    )


def _qwen3_windows(fields: Fields) -> tuple[int | None, ...]:
    """The last layers slide, where the model slides at all; `layer_types` says so too."""
    num_layers, window = fields.integer("num_hidden_layers"), _qwen_window(fields)
    first = fields.integer("max_window_layers", 28)
    windows = tuple(window if idx >= first else None for idx in range(num_layers))
    kinds = fields.items("layer_types")
    if not kinds:
        return windows
    known = {"full_attention": None, "sliding_attention": window}
    if len(kinds) != num_layers or any(kind not in known for kind in kinds):
        raise UnsupportedError(
            f"layer_types in config.json must be {num_layers} of {', '.join(known)}",
            got=shown(kinds),
        )
    return tuple(known[kind] for kind in kinds)


def _qwen_window(fields: Fields) -> int | None:
    window = fields.optional_integer("sliding_window", 4096)
    return window if fields.flag("use_sliding_window", False) else None


def _mixtral(fields: Fields) -> CausalConfig:
    sparse = SparseConfig(
        num_experts=fields.integer("num_local_experts", 8),
        num_selected=fields.integer("num_experts_per_tok", 2),
        hidden=fields.integer("intermediate_size"),
    )
    return _common(
        fields,
        theta=1e6,
        epsilon=1e-5,
        attention=_grouped(fields),
        feed_forward=(sparse,) * fields.integer("num_hidden_layers"),
        windows=_everywhere(fields, fields.optional_integer("sliding_window")),
    )


def _qwen3_moe(fields: Fields) -> CausalConfig:
    sparse = SparseConfig(
        num_experts=_num_experts(fields),
        num_selected=fields.integer("num_experts_per_tok", 8),
        hidden=fields.integer("moe_intermediate_size"),
        normalized=fields.flag("norm_topk_prob", False),
    )
    step, dense_layers = fields.integer("decoder_sparse_step", 1), fields.items("mlp_only_layers")
    layers = tuple(
        dense if idx in dense_layers or (idx + 1) % step else sparse
        for idx, dense in enumerate(_dense(fields))
    )
    # Every layer slides or none: `max_window_layers` is read by the dense model alone.
    fields.optional_integer("max_window_layers")
    return _common(
        fields,
        attention=_grouped(fields, bias=fields.flag("attention_bias", False), qk_norm=True),
        feed_forward=layers,
        windows=_everywhere(fields, _qwen_window(fields)),
    )


def _num_experts(fields: Fields) -> int:
    """Called `num_local_experts` by transformers 5."""
    name = "num_local_experts" if "num_local_experts" in fields else "num_experts"
    return fields.integer(name, 128)


def _deepseek_v3(fields: Fields) -> CausalConfig:
    fields.require("scoring_func", "sigmoid")
    fields.require("topk_method", "noaux_tc")
    fields.require("moe_layer_freq", 1)
    num_heads = fields.integer("num_attention_heads")
    fields.require("num_key_value_heads", num_heads)
    rope_dim = fields.integer("qk_rope_head_dim", 64)
    nope_dim = fields.integer("qk_nope_head_dim", 128)
    fields.require("qk_head_dim", rope_dim + nope_dim)
    fields.require("head_dim", rope_dim)
    rope, softmax_factor = rope_from_fields(fields)
    attention = LatentConfig(
        num_heads=num_heads,
        query_rank=fields.optional_integer("q_lora_rank", 1536),
        latent_rank=fields.integer("kv_lora_rank", 512),
        nope_dim=nope_dim,
        rope_dim=rope_dim,
        value_dim=fields.integer("v_head_dim", 128),
        softmax_factor=softmax_factor,
        bias=fields.flag("attention_bias", False),
    )
    config = _common(
        fields,
        attention=attention,
        feed_forward=_deepseek_layers(fields),
        windows=_everywhere(fields, None),
    )
    return replace(config, rope=replace(rope, interleaved=fields.flag("rope_interleave", True)))


def _deepseek_layers(fields: Fields) -> tuple[MlpConfig | SparseConfig, ...]:
    hidden = fields.integer("moe_intermediate_size", 2048)
    sparse = SparseConfig(
        num_experts=_num_routed(fields),
        num_selected=fields.integer("num_experts_per_tok", 8),
        hidden=hidden,
        scoring="sigmoid",
        normalized=fields.flag("norm_topk_prob", True),
        scale=fields.number("routed_scaling_factor", 2.5),
        num_groups=fields.integer("n_group", 8),
        num_groups_selected=fields.integer("topk_group", 4),
        shared_hidden=hidden * fields.integer("n_shared_experts", 1),
    )
    num_dense = fields.integer("first_k_dense_replace", 3)
    return tuple(dense if idx < num_dense else sparse for idx, dense in enumerate(_dense(fields)))


def _num_routed(fields: Fields) -> int:
    name = "num_local_experts" if "num_local_experts" in fields else "n_routed_experts"
    return fields.integer(name, 256)


_ARCHITECTURES: Mapping[str, Callable[[Fields], CausalConfig]] = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen3": _qwen3,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "deepseek_v3": _deepseek_v3,
}
ARCHITECTURES = tuple(_ARCHITECTURES)
"""The `model_type`s that `config_from_hf` reads."""
