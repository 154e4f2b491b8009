"""The rotary part of a Hugging Face `config.json`, in its old and its new spelling."""

from dataclasses import replace
from typing import get_args

from pallas_kernels import UnsupportedError
from zipjax.files.wording import shown
from zipjax.models.causal_config import RopeConfig, RopeKind
from zipjax.models.hf_fields import Fields
from zipjax.models.rope import yarn_magnitude


def rope_from_fields(fields: Fields, *, theta: float = 10_000.0) -> tuple[RopeConfig, float]:
    """The wavelengths, and what the softmax scale of latent attention is multiplied by.

    Args:
        fields: `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before).
        theta: the architecture's own default.

    Raises:
        UnsupportedError: a kind of stretching that zipjax does not know, or an unknown field of it.
    """
    theta = fields.number("rope_theta", theta)
    name = "rope_parameters" if "rope_parameters" in fields else "rope_scaling"
    values = fields.object(name) or {}
    fields.object("rope_scaling" if name == "rope_parameters" else "rope_parameters")
    rope = Fields(values, what=f"{name} in config.json")
    max_positions = fields.integer("max_position_embeddings")
    kind = _kind(rope)
    config = RopeConfig(
        theta=rope.number("rope_theta", theta), kind=kind, max_positions=max_positions
    )
    for place in (rope, fields):
        place.require("partial_rotary_factor", 1, 1.0)
    softmax_factor = 1.0
    if kind in ("linear", "dynamic"):
        config = replace(config, factor=rope.number("factor"))
    elif kind == "llama3":
        config = _llama3(config, rope, fields)
    elif kind == "yarn":
        config, softmax_factor = _yarn(config, rope, fields)
    rope.require_no_more()
    return config, softmax_factor


def _kind(rope: Fields) -> RopeKind:
    kind = rope.text("rope_type", rope.text("type", "default"))
    for known in get_args(RopeKind):
        if kind == known:
            return known
    raise UnsupportedError(
        f"rope_type in {rope.what} must be one of {', '.join(get_args(RopeKind))}", got=shown(kind)
    )


def _original(rope: Fields, fields: Fields, max_positions: int) -> int:
    """Beside the other fields, as some have it, or among them."""
    inner = rope.integer("original_max_position_embeddings", max_positions)
    return fields.integer("original_max_position_embeddings", inner)


def _llama3(config: RopeConfig, rope: Fields, fields: Fields) -> RopeConfig:
    return replace(
        config,
        factor=rope.number("factor"),
        low_freq_factor=rope.number("low_freq_factor"),
        high_freq_factor=rope.number("high_freq_factor"),
        original_max_positions=_original(rope, fields, config.max_positions),
    )


def _yarn(config: RopeConfig, rope: Fields, fields: Fields) -> tuple[RopeConfig, float]:
    """`mscale` weighs the magnitude of the rotated part, `mscale_all_dim` that of everything."""
    original = _original(rope, fields, config.max_positions)
    factor = rope.number("factor", config.max_positions / original)
    part, whole = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    magnitude = yarn_magnitude(factor)
    if part and whole:
        magnitude = yarn_magnitude(factor, part) / yarn_magnitude(factor, whole)
    config = replace(
        config,
        factor=factor,
        original_max_positions=original,
        beta_fast=rope.number("beta_fast", 32.0) or 32.0,
        beta_slow=rope.number("beta_slow", 1.0) or 1.0,
        truncate=rope.flag("truncate", True),
        attention_factor=rope.number("attention_factor", magnitude),
    )
    return config, yarn_magnitude(factor, whole) ** 2 if whole else 1.0
