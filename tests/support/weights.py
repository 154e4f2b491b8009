"""Arrays that codecs meet: weights, and everything that hurts, as (name, array) pairs."""

from collections.abc import Iterator

import numpy as np

from pallas_kernels.format import float_spec

CODED = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")


def gaussian(dtype: np.dtype, shape: tuple[int, ...], sigma: float = 0.02) -> np.ndarray:
    """N(0, sigma^2) rounded to `dtype`; the same for every call."""
    rng = np.random.default_rng(7)
    return (rng.standard_normal(shape) * sigma).astype(dtype)


def every_pattern(dtype: np.dtype) -> np.ndarray:
    """All bit patterns of a one or two-byte float; 2^16 of a four-byte one, all over its range."""
    width = 8 * dtype.itemsize
    patterns = np.arange(1 << min(width, 16), dtype=np.uint64)
    if width == 32:
        patterns = patterns << 16 | (patterns * 40503 & 0xFFFF)
    return patterns.astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


def awkward(dtype: np.dtype) -> Iterator[tuple[str, np.ndarray]]:
    """Inputs that a codec may get wrong, each of a few thousand elements or none."""
    spec = float_spec(dtype)
    word = spec.bits_dtype
    rng = np.random.default_rng(11)
    top = spec.num_exponents - 1
    n = 5000

    def with_exponent(exponent: np.ndarray | int) -> np.ndarray:
        mantissa = rng.integers(0, 1 << spec.mantissa_bits, n)
        sign = rng.integers(0, 2, n) << (spec.width_bits - 1)
        return (sign | exponent << spec.mantissa_bits | mantissa).astype(word).view(dtype)

    yield "empty", np.zeros((0, 3), dtype)
    yield "0-d", np.array(-0.5).astype(dtype)
    yield "one element", np.array([1.5]).astype(dtype)
    for size in (255, 256, 4095, 4096, 4097):
        yield f"{size} elements", gaussian(dtype, (size,))
    yield "three axes", gaussian(dtype, (3, 17, 41))
    yield "strided", gaussian(dtype, (101, 64))[::3, ::-2]
    yield "transposed", gaussian(dtype, (64, 101)).T
    yield "zeros", np.zeros(n, dtype)
    yield "negative zeros", np.full(n, 1 << (spec.width_bits - 1), word).view(dtype)
    yield "constant", np.full(n, 3.0).astype(dtype)
    yield "subnormals", with_exponent(0)
    yield "top exponent", with_exponent(top)  # infinities and NaN payloads, or the largest numbers
    yield (
        "random bits",
        rng.integers(0, 1 << spec.width_bits, n, dtype=np.uint64).astype(word).view(dtype),
    )
    yield "all escapes", with_exponent(rng.choice([0, top // 2 + 1, top], n))
    outlier = gaussian(dtype, (n,)).view(word).copy()
    outlier[n // 2] = (top - 1) << spec.mantissa_bits
    yield "one outlier", outlier.view(dtype)
    every = gaussian(dtype, (n,)).view(word).copy()
    every[: spec.num_exponents] = np.arange(spec.num_exponents) << spec.mantissa_bits
    yield "every exponent once", every.view(dtype)
    scale = 2.0 ** rng.uniform(-3, 3, (50, 1))
    yield "rows of many sigmas", (rng.standard_normal((50, 100)) * 0.02 * scale).astype(dtype)
