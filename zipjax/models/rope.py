"""Rotary positions (RoFormer, section 3.2.2) and the ways to stretch them, at any positions."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from zipjax.models.causal_config import RopeConfig


def rope_angles(
    positions: Int[Array, "B T"], dim: int, rope: RopeConfig
) -> tuple[Float[Array, "B T D/2"], Float[Array, "B T D/2"]]:
    """Cosines and sines of every pair's angle at `positions`.

    Args:
        positions: int [B, T].
        dim: D, elements of a head that are rotated.
        rope: the wavelengths.

    Returns:
        Twice float32 [B, T, D / 2].
    """
    if rope.kind == "dynamic":
        rates = _dynamic_rates(positions, dim, rope)
    else:
        rates = jnp.asarray(rope_rates(dim, rope))[None, None]
    angles = positions[..., None].astype(jnp.float32) * rates
    return rope.attention_factor * jnp.cos(angles), rope.attention_factor * jnp.sin(angles)


def rotate(
    x: Float[Array, "B T H D"],
    angles: tuple[Float[Array, "B T D/2"], Float[Array, "B T D/2"]],
    *,
    interleaved: bool = False,
) -> Float[Array, "B T H D"]:
    """Rotate the pairs of every head.

    The result has the first of every pair in its lower half whichever way they came in: queries
    and keys are only ever compared with each other.

    Args:
        x: float [B, T, H, D].
        angles: from `rope_angles`.
        interleaved: see `RopeConfig`.

    Returns:
        The dtype and shape of `x`; computed in float32.
    """
    wide = x.astype(jnp.float32)
    if interleaved:
        low, high = wide[..., 0::2], wide[..., 1::2]
    else:
        low, high = jnp.split(wide, 2, axis=-1)
    cos, sin = (part[:, :, None] for part in angles)
    rotated = jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
    return rotated.astype(x.dtype)


def rope_rates(dim: int, rope: RopeConfig) -> np.ndarray:
    """Angle per position of every pair, in radians: float32 [dim / 2]."""
    rates = _plain_rates(rope.theta, dim)
    if rope.kind == "linear":
        rates = rates / rope.factor
    elif rope.kind == "llama3":
        rates = _llama3_rates(rates, rope)
    elif rope.kind == "yarn":
        rates = _yarn_rates(rates, dim, rope)
    return rates.astype(np.float32)


def yarn_magnitude(factor: float, weight: float = 1.0) -> float:
    """How much attention grows with the stretch (YaRN, equation 22)."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _plain_rates(theta: float, dim: int) -> np.ndarray:
    return theta ** (-np.arange(0, dim, 2, dtype=np.float64) / dim)


def _dynamic_rates(
    positions: Int[Array, "B T"], dim: int, rope: RopeConfig
) -> Float[Array, "B 1 D/2"]:
    """A larger base the longer the sequence is, beyond the training length.

    The length is that of each sequence by itself, so that its numbers do not depend on what it is
    batched with.
    """
    length = jnp.maximum(positions.max(axis=1) + 1, rope.max_positions).astype(jnp.float32)
    stretch = rope.factor * length / rope.max_positions - (rope.factor - 1)
    exponents = jnp.arange(0, dim, 2, dtype=jnp.float32) / dim
    theta = rope.theta * stretch ** (dim / (dim - 2))
    return theta[:, None, None] ** -exponents[None, None]


def _llama3_rates(rates: np.ndarray, rope: RopeConfig) -> np.ndarray:
    """Long wavelengths stretched, short ones kept, those between blended (Llama 3.1)."""
    turns = rope.original_max_positions * rates / (2 * math.pi)
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = np.clip(kept, 0.0, 1.0)
    return kept * rates + (1 - kept) * rates / rope.factor


def _yarn_rates(rates: np.ndarray, dim: int, rope: RopeConfig) -> np.ndarray:
    """Pairs of few turns stretched, of many kept, a ramp over the pairs between (YaRN, 3.2)."""
    low = _pair_with_turns(rope.beta_fast, dim, rope)
    high = _pair_with_turns(rope.beta_slow, dim, rope)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low or 0.001
    stretched = np.clip((np.arange(dim // 2) - low) / width, 0.0, 1.0)
    return (1 - stretched) * rates + stretched * rates / rope.factor


def _pair_with_turns(num_turns: float, dim: int, rope: RopeConfig) -> float:
    """The pair, a real number, that turns so often over the original length."""
    wavelength = rope.original_max_positions / (num_turns * 2 * math.pi)
    return dim * math.log(wavelength) / (2 * math.log(rope.theta))
