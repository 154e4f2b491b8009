"""Arrays of every kind that may be given: dtypes, shapes, memory orders, bit patterns."""

import math

import numpy as np
from hypothesis import strategies as st

from pallas_kernels import dtype_from_name

DTYPE_NAMES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 "
    "complex128 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
).split()
CODED_NAMES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")

shapes = st.lists(st.integers(0, 9), max_size=4).map(tuple)
# Around the edges of tiles, where the last one is full, almost full, or begun.
long_shapes = st.sampled_from([(4096,), (4097,), (3, 4095), (2, 5, 1000), (12_289,)])
all_shapes = shapes | long_shapes
all_names = st.sampled_from(DTYPE_NAMES)
coded_names = st.sampled_from(CODED_NAMES)
fills = st.sampled_from(["random bits", "weights", "constant", "wide", "one outlier"])
orders = st.sampled_from(["C", "F", "reversed", "strided", "transposed", "unaligned"])


@st.composite
def arrays(draw, names=all_names, shapes=all_shapes):
    """An array of a drawn dtype, shape, fill and memory order."""
    dtype = dtype_from_name(draw(names))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    x = _filled(dtype, draw(shapes), draw(fills), rng)
    return _ordered(x, draw(orders))


def _filled(dtype: np.dtype, shape: tuple[int, ...], fill: str, rng) -> np.ndarray:
    size = math.prod(shape)
    if fill == "random bits" or dtype.kind not in "fV":
        data = rng.integers(0, 2 if dtype == np.bool_ else 256, size * dtype.itemsize, np.uint8)
        return data.view(dtype).reshape(shape)
    values = rng.normal(0, 0.02, size)
    if fill == "constant":
        values[:] = values[:1]
    elif fill == "wide":
        values *= np.exp(rng.normal(0, 20, size))
    elif fill == "one outlier" and size:
        values[rng.integers(size)] = 1e30
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float32).astype(dtype).reshape(shape)


def _ordered(x: np.ndarray, order: str) -> np.ndarray:
    """The same values, lying differently in memory."""
    match order:
        case "F":
            return np.asfortranarray(x)
        case "reversed":
            return np.ascontiguousarray(x[..., ::-1])[..., ::-1] if x.ndim else x
        case "strided":
            doubled = np.zeros((*x.shape, 2), x.dtype)
            doubled[..., 0] = x
            return doubled[..., 0]
        case "transposed":
            return np.ascontiguousarray(x.T).T
        case "unaligned":
            memory = np.zeros(x.nbytes + 1, np.uint8)
            memory[1:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
            return memory[1:].view(x.dtype).reshape(x.shape)
    return x
