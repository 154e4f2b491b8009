"""Arrays that hurt an exponent code: one array per row of DESIGN's list of worst cases."""

from math import prod

import jax.numpy as jnp
import numpy as np


def worst_inputs(dtype, shape: tuple[int, ...], seed: int = 0) -> dict[str, np.ndarray]:
    """Return arrays of a float dtype by name; the first is the one that compresses well."""
    rng = np.random.default_rng(seed)
    dtype = jnp.dtype(dtype)
    size = prod(shape)
    normal = rng.standard_normal(size).astype(np.float32)
    bits = np.dtype(f"uint{jnp.finfo(dtype).bits}")
    info = jnp.finfo(dtype)
    exponent_mask = np.array(np.inf, dtype).view(bits)[()]
    mantissa_mask = bits.type((1 << info.nmant) - 1)
    sign_mask = bits.type(1 << (info.bits - 1))
    random = rng.integers(0, 1 << info.bits, size, dtype=np.uint64).astype(bits)
    rows = np.exp2(rng.uniform(-9, 9, size // 64 + 1)).repeat(64)[:size]

    def sparse(value, share):
        return np.where(rng.random(size) < share, value, normal)

    outlier = normal.copy()
    outlier[size // 2 : size // 2 + 1] = np.float32(info.max)
    values = {
        "gaussian": normal * 0.02,
        "sigma differs from row to row": normal * rows,
        "zeros": np.zeros(size),
        "negative zeros": np.full(size, -0.0),
        "constant": np.full(size, 3.75),
        "one huge outlier": outlier,
        "one in twenty zero": sparse(0, 0.05),
        "half infinite": sparse(np.inf, 0.25) * np.sign(normal),
    }
    words = {
        "random bits": random,
        "NaN payloads": (random & (sign_mask | mantissa_mask)) | exponent_mask | bits.type(1),
        "subnormals": random & (sign_mask | mantissa_mask),
    }
    with np.errstate(over="ignore"):
        arrays = {name: x.astype(np.float32).astype(dtype) for name, x in values.items()}
    arrays |= {name: x.view(dtype) for name, x in words.items()}
    return {name: x.reshape(shape) for name, x in arrays.items()}


def any_bits(dtype, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return an array of any dtype whose bits are random, of ordinary size where it is a float."""
    rng = np.random.default_rng(seed)
    dtype = jnp.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return (rng.standard_normal(shape) * 3).astype(np.float64).astype(dtype)
    return rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def assert_same_bits(got, want, what: str = "") -> None:
    """Compare dtype, shape and every bit, NaN payloads and signs of zero included."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    differ = np.frombuffer(got.tobytes(), np.uint8) != np.frombuffer(want.tobytes(), np.uint8)
    assert not differ.any(), f"{what}: {differ.sum()} of {differ.size} bytes differ"
