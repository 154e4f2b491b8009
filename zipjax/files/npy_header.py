"""The header of a `.npy` member: a Python literal, believed only if it adds up."""

import ast
import math
import re
from typing import IO, Any, NamedTuple

import numpy as np

from pallas_kernels import FormatError, dtype_name
from zipjax.files.sizes import checked_nbytes, checked_shape
from zipjax.files.wording import shown

_MAGIC = b"\x93NUMPY"
# Version of the .npy format -> bytes of the field with the header's length.
_LENGTH_NBYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
_HEADER_NBYTES_MAX = 1 << 16
_DESCR = re.compile(r"[<>|=]?([biufcOSUVmM?])\d*")


class NpyHeader(NamedTuple):
    """What a `.npy` file holds.

    Attributes:
        dtype: dtype of the elements.
        shape: sizes of the array.
        fortran_order: whether the first axis is the fastest.
        header_nbytes: where the elements start.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran_order: bool
    header_nbytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(file: IO[bytes], name: str) -> NpyHeader:
    """Read a header and stop at the first element.

    Args:
        file: at the start of a `.npy`.
        name: what to call it in messages.

    Raises:
        FormatError: no header, or one that contradicts itself.
        UnsupportedError: a dtype that cannot be stored.
    """
    start = file.read(len(_MAGIC) + 2)
    version = tuple(start[len(_MAGIC) :])
    if start[: len(_MAGIC)] != _MAGIC or version not in _LENGTH_NBYTES:
        raise FormatError(f"{shown(name)} must start as .npy 1.0 to 3.0 does", got=start.hex(" "))
    num_length = _LENGTH_NBYTES[version]
    nbytes = int.from_bytes(file.read(num_length), "little")
    if nbytes > _HEADER_NBYTES_MAX:
        raise FormatError(
            f"the header of {shown(name)} may take {_HEADER_NBYTES_MAX} bytes", got=nbytes
        )
    fields = _fields(file.read(nbytes), name)
    dtype, shape = _dtype(fields["descr"], name), checked_shape(fields["shape"], shown(name))
    checked_nbytes(dtype, shape, shown(name))
    if type(fields["fortran_order"]) is not bool:
        raise FormatError(f"fortran_order of {shown(name)} must be True or False")
    return NpyHeader(dtype, shape, fields["fortran_order"], len(start) + num_length + nbytes)


def _fields(data: bytes, name: str) -> dict[str, Any]:
    try:
        fields = ast.literal_eval(data.decode("utf-8"))
    # A hostile literal raises SyntaxError, ValueError, TypeError, RecursionError or MemoryError.
    except Exception as error:
        got = type(error).__name__
        raise FormatError(f"the header of {shown(name)} must be a literal", got=got) from None
    if type(fields) is not dict or set(fields) != {"descr", "fortran_order", "shape"}:
        raise FormatError(
            f"{shown(name)} must have descr, fortran_order and shape", got=shown(fields)
        )
    return fields


def _dtype(descr: Any, name: str) -> np.dtype:
    if type(descr) is not str or not _DESCR.fullmatch(descr):
        raise FormatError(f"{shown(name)} must hold numbers of one kind", got=shown(descr))
    if "O" in descr:
        raise FormatError(f"{shown(name)} must hold numbers", got="Python objects, kept as pickle")
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise FormatError(f"the dtype of {shown(name)} must exist", got=shown(descr)) from None
    if dtype.kind == "V":
        raise FormatError(
            f"{shown(name)} must hold numbers",
            got=f"{dtype.itemsize} nameless bytes, as NumPy keeps bfloat16 and float8",
            fix="use .safetensors for these",
        )
    dtype_name(dtype)
    return dtype
