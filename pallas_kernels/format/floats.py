"""A float as sign, exponent and mantissa; what is not exponent is the remainder (DESIGN 3.1).

bits      = sign << (E + M) | exponent << M | mantissa
remainder = sign << M | mantissa
"""

import dataclasses

import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format.dtypes import DTYPES, dtype_name


@dataclasses.dataclass(frozen=True, kw_only=True)
class FloatSpec:
    """How many bits of an element are what.

    Attributes:
        dtype: the NumPy dtype.
        exponent_bits: width of the exponent field, E.
        mantissa_bits: width of the mantissa field, M.
        exponent_bias: field value of the exponent of 1.0.

    Invariant: 1 + exponent_bits + mantissa_bits == 8 * dtype.itemsize.
    """

    dtype: np.dtype
    exponent_bits: int
    mantissa_bits: int
    exponent_bias: int

    def __post_init__(self):
        """Check the invariant."""
        assert 1 + self.exponent_bits + self.mantissa_bits == self.width_bits

    @property
    def width_bits(self) -> int:
        """Bits of an element."""
        return 8 * self.dtype.itemsize

    @property
    def remainder_bits(self) -> int:
        """Bits of an element that are not exponent: 1 + M."""
        return 1 + self.mantissa_bits

    @property
    def num_exponents(self) -> int:
        """How many values the exponent field has: 2^E."""
        return 1 << self.exponent_bits

    @property
    def bits_dtype(self) -> np.dtype:
        """The unsigned integer as wide as an element."""
        return np.dtype(f"u{self.dtype.itemsize}")


FLOATS: dict[np.dtype, FloatSpec] = {
    DTYPES[name]: FloatSpec(
        dtype=DTYPES[name], exponent_bits=exponent, mantissa_bits=mantissa, exponent_bias=bias
    )
    for name, exponent, mantissa, bias in (
        ("bfloat16", 8, 7, 127),
        ("float16", 5, 10, 15),
        ("float32", 8, 23, 127),
        ("float8_e4m3fn", 4, 3, 7),
        ("float8_e5m2", 5, 2, 15),
    )
}


def float_spec(dtype: object) -> FloatSpec:
    """The `FloatSpec` of a dtype whose exponents are worth coding.

    Raises:
        UnsupportedError: any other dtype; it is stored raw.
    """
    spec = FLOATS.get(np.dtype(dtype))  # type: ignore[call-overload]
    if spec is None:
        raise UnsupportedError(
            "only floats with a coded exponent can be split",
            got=dtype,
            fix=f"store it raw; coded are {', '.join(dtype_name(d) for d in FLOATS)}",
        )
    return spec


def split(bits: np.ndarray, spec: FloatSpec) -> tuple[np.ndarray, np.ndarray]:
    """Split elements into exponents and remainders.

    Args:
        bits: unsigned [n], the elements' bits (`spec.bits_dtype`).
        spec: the float.

    Returns:
        exponent: uint8 [n], the exponent field.
        remainder: like `bits` [n], sign << M | mantissa.
    """
    one = spec.bits_dtype.type
    mantissa_mask = one((1 << spec.mantissa_bits) - 1)
    sign = bits >> one(spec.width_bits - 1)
    exponent = (bits >> one(spec.mantissa_bits)) & one(spec.num_exponents - 1)
    return exponent.astype(np.uint8), (sign << one(spec.mantissa_bits)) | (bits & mantissa_mask)


def join(exponent: np.ndarray, remainder: np.ndarray, spec: FloatSpec) -> np.ndarray:
    """Undo `split`; an exponent that is too large carries into the sign, as integers do.

    Args:
        exponent: unsigned [n].
        remainder: unsigned [n], sign << M | mantissa.
        spec: the float.

    Returns:
        bits: `spec.bits_dtype` [n].
    """
    one = spec.bits_dtype.type
    remainder = remainder.astype(spec.bits_dtype)
    sign = remainder >> one(spec.mantissa_bits)
    mantissa = remainder & one((1 << spec.mantissa_bits) - 1)
    placed = exponent.astype(spec.bits_dtype) << one(spec.mantissa_bits)
    return (sign << one(spec.width_bits - 1)) + mantissa + placed
