"""`CompressedTensor`: a compressed array as a pytree; its streams are the leaves."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NoReturn

import jax
import numpy as np

from pallas_kernels.errors import ArgumentError, FormatError
from pallas_kernels.format import check_streams, dtype_name


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CompressedTensor:
    """A tensor whose bits are all there, in fewer bytes.

    Attributes:
        codec: name of the codec, "triple_bitmap" or "raw".
        layout: name of the order of the bits in the streams.
        dtype: dtype of the elements.
        shape: shape of the tensor.
        streams: NumPy or JAX arrays by name; the leaves of the pytree.

    Invariants: `decode(t)` has `dtype` and `shape` and exactly the bits that `encode` was given;
    `set(streams) == set(stream_specs(codec, layout, dtype, shape))`.
    """

    codec: str
    layout: str
    dtype: np.dtype
    shape: tuple[int, ...]
    streams: dict[str, Any]

    @classmethod
    def from_streams(
        cls,
        *,
        codec: str,
        layout: str,
        dtype: np.dtype,
        shape: tuple[int, ...],
        streams: Mapping[str, Any],
    ) -> "CompressedTensor":
        """A tensor from stored streams, after checking everything that decoding relies on.

        Raises:
            FormatError: the streams are not what the rest says, or point outside the tensor.
            UnsupportedError: a codec or layout from another version.
        """
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise FormatError("sizes must be integers of at least 0", got=shape)
        check_streams(codec, layout, dtype, tuple(shape), streams)
        return cls(codec, layout, dtype, tuple(shape), dict(streams))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all streams."""
        return sum(stream.size * stream.dtype.itemsize for stream in self.streams.values())

    @property
    def raw_nbytes(self) -> int:
        """Bytes of the tensor uncompressed."""
        return self.size * self.dtype.itemsize

    @property
    def bits_per_element(self) -> float:
        """Bits of all streams over elements; 0 for an empty tensor."""
        return 8 * self.nbytes / self.size if self.size else 0.0

    @property
    def ratio(self) -> float:
        """Compressed over uncompressed bytes; 1 for an empty tensor."""
        return self.nbytes / self.raw_nbytes if self.raw_nbytes else 1.0

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        what = f"{dtype_name(self.dtype)}[{sizes}], {self.codec}/{self.layout}"
        if not all(hasattr(stream, "itemsize") for stream in self.streams.values()):
            return f"CompressedTensor({what})"  # a tree map put something else in: shapes, specs
        return f"CompressedTensor({what}, {self.bits_per_element:.2f} bits/element)"

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an array of compressed bytes would be silently wrong."""
        _refuse_as_array(self)

    def __jax_array__(self) -> NoReturn:
        """Refuse, for the same reason."""
        _refuse_as_array(self)


def _refuse_as_array(tensor: CompressedTensor) -> NoReturn:
    raise ArgumentError(
        "a compressed tensor is no array", got=tensor, fix="call zipjax.decompress(t) first"
    )


def _flatten(tensor: CompressedTensor) -> tuple[tuple[dict[str, Any]], tuple[Any, ...]]:
    return (tensor.streams,), (tensor.codec, tensor.layout, tensor.dtype, tensor.shape)


def _flatten_with_keys(
    tensor: CompressedTensor,
) -> tuple[tuple[tuple[Any, dict[str, Any]]], tuple[Any, ...]]:
    children, static = _flatten(tensor)
    return ((jax.tree_util.GetAttrKey("streams"), children[0]),), static


def _unflatten(static: tuple[Any, ...], children: Any) -> CompressedTensor:
    return CompressedTensor(*static, *children)


jax.tree_util.register_pytree_with_keys(CompressedTensor, _flatten_with_keys, _unflatten, _flatten)
