"""Sizes that a file claims, believed only where an array of that size could exist."""

import math
from typing import Any

import numpy as np

from pallas_kernels import FormatError
from zipjax.files.spec import NBYTES_MAX, NDIM_MAX
from zipjax.files.wording import shown


def checked_count(value: Any, where: str) -> int:
    """`value` if it is an integer from 0 to 2^63 - 1; a bool is none, though Python says so."""
    if type(value) is not int or not 0 <= value <= NBYTES_MAX:
        raise FormatError(
            f"{where}: sizes must be integers from 0 to {NBYTES_MAX}", got=shown(value)
        )
    return value


def checked_shape(value: Any, where: str) -> tuple[int, ...]:
    """`value`, a list or tuple of sizes, as a shape."""
    if type(value) not in (list, tuple):
        raise FormatError(f"shape of {where} must be a list", got=shown(value))
    if len(value) > NDIM_MAX:
        raise FormatError(f"{where} may have {NDIM_MAX} axes", got=len(value))
    return tuple(checked_count(size, where) for size in value)


def checked_nbytes(dtype: np.dtype, shape: tuple[int, ...], where: str) -> int:
    """Bytes of an array, refused where no machine could address them; empty axes hide nothing."""
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize > NBYTES_MAX:
        raise FormatError(f"{where} must hold at most {NBYTES_MAX} bytes", got=shown(list(shape)))
    return math.prod(shape) * dtype.itemsize
