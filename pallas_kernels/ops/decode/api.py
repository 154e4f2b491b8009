"""`decode`: which backend gives the array back."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from pallas_kernels.codecs import raw
from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.format import RAW
from pallas_kernels.ops.decode import host, mosaic_gpu, reference
from pallas_kernels.shapes import Array, Shaped
from pallas_kernels.tensor import CompressedTensor

_BACKENDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"numpy": host.decode, "mosaic_gpu": mosaic_gpu.decode, "xla": reference.decode}
)


def decode(
    tensor: CompressedTensor, *, implementation: Implementation = None
) -> Shaped[Array, "*shape"] | np.ndarray:
    """Give back the array that was encoded, bit for bit.

    Args:
        tensor: from `encode`, `encode_static` or a file. With NumPy streams the result is a NumPy
            array; with JAX streams a JAX array, and the call can be traced.
        implementation: "numpy" (host memory only), "mosaic_gpu" (Hopper, Blackwell; mma layouts),
            "xla", names in the order to try, or None for the best there is.

    Returns:
        x: `tensor.dtype` and `tensor.shape`.

    Raises:
        ArgumentError: not a `CompressedTensor`.
        UnsupportedError: a dtype that JAX cannot hold, in a traced raw tensor.
    """
    if not isinstance(tensor, CompressedTensor):
        raise ArgumentError("only a CompressedTensor can be decoded", got=type(tensor).__name__)
    is_numpy = all(isinstance(stream, np.ndarray) for stream in tensor.streams.values())
    if is_numpy and (tensor.codec == RAW or not tensor.size):
        return _decode_on_host(tensor)
    x = dispatch("decode", _BACKENDS, implementation, tensor)
    return np.asarray(x) if is_numpy and not isinstance(x, jax.core.Tracer) else x


def _decode_on_host(tensor: CompressedTensor) -> np.ndarray:
    """Bytes need no device, and NumPy holds dtypes that JAX does not (float64 without x64)."""
    if not tensor.size:
        return np.zeros(tensor.shape, tensor.dtype)
    return raw.decode(tensor.streams, tensor.dtype, tensor.shape)
