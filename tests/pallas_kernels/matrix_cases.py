"""Matrices in the codec, whatever they hold, and how far a product with them may be off."""

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels import CompressedTensor, dtype_from_name
from pallas_kernels.codecs import triple_bitmap
from pallas_kernels.format import float_spec
from tests.support.weights import every_pattern, gaussian

DTYPES = ("bfloat16", "float16", "float32")


def coded(x: np.ndarray) -> CompressedTensor:
    """`x` as a triple bitmap even where `encode` would store it raw, on the device."""
    streams = {name: jnp.asarray(stream) for name, stream in triple_bitmap.encode(x).items()}
    return CompressedTensor("triple_bitmap", "rows16", x.dtype, x.shape, streams)


def rows_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers about 1, for the other side of a product."""
    return gaussian(dtype_from_name(name), shape, sigma=1.0)


def patched(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A matrix of which a third lies outside the window, in long runs and with every exponent."""
    dtype = dtype_from_name(name)
    x = gaussian(dtype, shape).reshape(-1)
    start = x.size // 3
    patterns = every_pattern(dtype)
    x[start : 2 * start] = np.resize(patterns[:: max(1, patterns.size // max(start, 1))], start)
    return x.reshape(shape)


def error_bound(x: np.ndarray, w: np.ndarray, out: np.dtype) -> np.ndarray:
    """|y - x @ w| at most, for sums in float32 in any order (Higham 2002, section 3.1).

    Each of K products and K - 1 sums is off by at most 2^-24 of itself, or is flushed to zero
    below 2^-126; the result is rounded once more, to `out`.
    """
    depth = x.shape[-1]
    x, w = np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64))
    unit = (depth + 1) * 2.0**-24
    sums = unit / (1 - unit) * (x @ w) + (2 * depth + 1) * 2.0**-126
    spec = float_spec(out)
    tiny = 2.0 ** (1 - spec.exponent_bias)
    return sums + 2.0 ** -(spec.mantissa_bits + 1) * (x @ w + sums) + tiny


def bit_equal_gradient(product, weight, plain_product, plain_weight, x):
    """The gradients in x of both, traced."""

    def gradient(product, weight):
        return jax.jit(jax.grad(lambda x: (product(x, weight).astype(jnp.float32) ** 2).sum()))(x)

    return gradient(product, weight), gradient(plain_product, plain_weight)
