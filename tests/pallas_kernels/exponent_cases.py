"""Inputs that hurt the exponent code, as bits, and a count of far elements that shares no code."""

import ml_dtypes
import numpy as np

from pallas_kernels.format.slot_layout import SlotLayout

DTYPES = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "float32": np.dtype(np.float32),
}
WORDS = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32)}


def bits_of(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round to `dtype` and give the bits."""
    with np.errstate(over="ignore"):  # float16 has a small range
        return np.ascontiguousarray(values).astype(dtype).view(WORDS[dtype.itemsize])


def hostile(dtype: np.dtype, n: int) -> dict[str, np.ndarray]:
    """Name -> bits [n]: what a wire codec must survive, and what it should do well on."""
    rng = np.random.default_rng(20)
    word = WORDS[dtype.itemsize]
    mantissa = int(ml_dtypes.finfo(dtype).nmant)
    width = 8 * dtype.itemsize
    largest = (1 << (width - 1 - mantissa)) - 1
    normal = rng.standard_normal(n)
    gauss = bits_of(normal * 0.02, dtype)
    noise = rng.integers(0, 1 << width, n, dtype=np.uint64).astype(word)
    unsigned = noise & word.type((1 << mantissa) - 1 | 1 << (width - 1))

    def sprinkled(share: float, value: int) -> np.ndarray:
        return np.where(rng.random(n) < share, word.type(value), gauss)

    specials = gauss.copy()
    specials[[0, n // 3, n // 2, -1]] = bits_of(np.array([-0.0, np.inf, np.nan, 0.0]), dtype)
    outlier = gauss.copy()
    outlier[n // 2] = bits_of(np.array([6e4]), dtype)[0]
    near_run = gauss.copy()
    near_run[:4096] = bits_of(np.array([1.5e-4]), dtype)[0]
    eighth = gauss.copy()
    eighth[: n // 8] = 0
    scale = 2.0 ** np.repeat(rng.uniform(-1.5, 1.5, n // 100 + 1), 100)[:n]
    tiles = 10.0 ** np.repeat(rng.uniform(-30, 30, n // 4096 + 1), 4096)[:n]
    return {
        "gauss": gauss,
        "gauss, worst sigma": bits_of(normal * 2.0**-5.4, dtype),
        "zeros": np.zeros(n, word),
        "negative zeros": np.full(n, 1 << (width - 1), word),
        "constant": bits_of(np.full(n, 3.7), dtype),
        "random bits": noise,
        "infinities": np.full(n, largest << mantissa, word),
        "nan payloads": unsigned | word.type(largest << mantissa),
        "subnormals": unsigned,
        "largest": np.full(n, (largest << mantissa) - 1, word),
        "smallest normal": np.full(n, 1 << mantissa, word),
        "few specials": specials,
        "one huge outlier": outlier,
        "0.05 % zeros": sprinkled(0.0005, 0),
        "5 % zeros": sprinkled(0.05, 0),
        "an eighth zeros": eighth,
        "a run of near escapes": near_run,
        "row scales 2**3": bits_of(normal * 0.02 * scale, dtype),
        "tile scales 1e60": bits_of(normal * tiles, dtype),
        "laplace": bits_of(rng.laplace(0, 0.02, n), dtype),
        "student t3": bits_of(rng.standard_t(3, n) * 0.02, dtype),
        "silu": bits_of(normal / (1 + np.exp(-normal)), dtype),
        "product": bits_of(normal * rng.standard_normal(n), dtype),
        "ascending bits": np.arange(n, dtype=np.uint64).astype(word),
    }


def all_patterns(dtype: np.dtype) -> np.ndarray:
    """Every 16-bit pattern; for float32 as its upper half, over a noisy lower half."""
    patterns = np.arange(1 << 16, dtype=np.uint32)
    if dtype.itemsize == 2:
        return patterns.astype(np.uint16)
    return patterns << 16 | np.random.default_rng(1).integers(0, 1 << 16, 1 << 16, dtype=np.uint32)


def count_far(words: np.ndarray, base: np.ndarray, dtype: np.dtype, layout: SlotLayout) -> int:
    """How many elements the far list must take, from the words of the specification.

    Args:
        words: the bits [num_elems].
        base: uint8, the base of each run in memory order.
        dtype: of the elements.
        layout: for L, C and the width of the window.
    """
    run, window = layout.run_elems, 1 << layout.code_bits
    mantissa = int(ml_dtypes.finfo(dtype).nmant)
    width = 8 * dtype.itemsize
    index = np.arange(words.size)
    num_exponents = 1 << (width - 1 - mantissa)
    base = base.reshape(-1)[index // run].astype(np.int64)
    words = words.astype(np.int64)
    if layout.code_bits == 4:  # zero changes places with the base
        exponent = words >> mantissa & (num_exponents - 1)
        key = base % num_exponents
        words = words ^ np.where((exponent == 0) | (exponent == key), key << mantissa, 0)
    shifted = words - (base << mantissa)
    exponent = (shifted % (1 << width)) >> mantissa & (num_exponents - 1)
    signed = np.where(exponent > num_exponents // 2, exponent - num_exponents, exponent)
    near = ((signed > -window) & (signed < 0)) | (signed == window)
    far = ~near & ((signed < 0) | (signed > window))
    group = index // (256 * run) * run + index % run
    in_group = np.bincount(group[near], minlength=1)
    return int(far.sum() + np.maximum(in_group - layout.num_slots, 0).sum())
