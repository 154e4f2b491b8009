"""Element types by the names that are stored, and the unsigned view that shows an array's bits."""

import difflib

import ml_dtypes
import numpy as np

from pallas_kernels.errors import UnsupportedError

_NATIVE = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
).split()
_EXTENDED = (
    "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3 float8_e3m4 float8_e4m3b11fnuz "
    "float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu int4 uint4 int2 uint2"
).split()

DTYPES: dict[str, np.dtype] = {name: np.dtype(name) for name in _NATIVE} | {
    name: np.dtype(getattr(ml_dtypes, name)) for name in _EXTENDED
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_from_name(name: str) -> np.dtype:
    """The dtype stored as `name`.

    Raises:
        UnsupportedError: no such name; the message offers the nearest one.
    """
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    near = difflib.get_close_matches(str(name), DTYPES, n=1)
    raise UnsupportedError(
        "the dtype must be one that this version stores",
        got=repr(name),
        fix=f"did you mean {near[0]!r}?" if near else f"known: {', '.join(DTYPES)}",
    )


def dtype_name(dtype: object) -> str:
    """The name under which `dtype` is stored.

    Raises:
        UnsupportedError: object, string, structured or foreign-endian dtypes.
    """
    resolved = np.dtype(dtype)  # type: ignore[call-overload]
    if resolved in _NAMES:
        return _NAMES[resolved]
    fix = "store numbers of a fixed size"
    if not resolved.isnative:
        fix = f"convert it first with x.astype({resolved.newbyteorder('=').str!r})"
    raise UnsupportedError("the dtype must be a native number type", got=resolved, fix=fix)


def bit_view(x: np.ndarray) -> np.ndarray:
    """`x` as unsigned integers of the same width (uint8 for one byte), without a copy.

    Args:
        x: C-contiguous array of 1, 2, 4 or 8-byte elements.
    """
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))
