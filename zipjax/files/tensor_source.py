"""A tensor that is not read before it is needed: what savers and converters take."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pallas_kernels import CompressedTensor


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorSource:
    """A named tensor and how to get it.

    Attributes:
        name: its name in the file.
        dtype: dtype of the elements.
        shape: its shape.
        read: gives the tensor, on the host, each time it is called; a compressed one as it is.
        read_parts: gives its elements, flat and in C order, so many at a time, without holding
            them all; None where it takes `read` to get any.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    read: Callable[[], "np.ndarray | CompressedTensor"]
    read_parts: Callable[[int], Iterator[np.ndarray]] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor uncompressed."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def raw_nbytes(self) -> int:
        """The same, by the name that stored tensors give it."""
        return self.nbytes
