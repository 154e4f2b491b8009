"""Matrices for the tests of the layouts and kernels for tensor cores."""

import ml_dtypes
import numpy as np

PAIR_DTYPES = (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16))


def gaussian(shape, dtype, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 0.02).astype(dtype)


def every_pattern(dtype, seed=0):
    """All 65,536 patterns in any order: [128, 512]."""
    bits = np.random.default_rng(seed).permutation(1 << 16).astype(np.uint16)
    return bits.view(dtype).reshape(128, 512)


def awkward(shape, dtype, seed=0):
    """Gaussian, with zeros, tiles of more escapes than a list holds, NaN payloads, 60 exponents."""
    x = gaussian(shape, dtype, seed)
    bits = x.reshape(-1).view(np.uint16)
    bits[::29] &= 0x8000
    bits[: min(bits.size // 8, 5000) : 2] = 0
    few = bits[:60]
    few[:] = (np.arange(few.size) * 1091).astype(np.uint16)
    return x


def bits_of(x):
    return np.asarray(x).view(np.uint16)
