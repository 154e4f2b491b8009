"""`encode`: which arrays are coded, by which backend, and what comes back."""

from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from pallas_kernels.codecs import raw
from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError, UnsupportedError
from pallas_kernels.format import (
    LAYOUT_RAW,
    LAYOUT_ROWS16,
    RAW,
    TRIPLE_BITMAP,
    dtype_name,
    float_spec,
    stream_specs,
)
from pallas_kernels.ops.encode import host, reference
from pallas_kernels.ops.encode.mma import arrange_for_mma
from pallas_kernels.shapes import Array, Shaped
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import decode_whole

# For arrays in host memory NumPy is as fast as XLA on CPU, and there is nothing to compile.
_BACKENDS = MappingProxyType({"numpy": host.encode, "xla": reference.encode})
_STATIC_BACKENDS = MappingProxyType({"xla": reference.encode_static})


def encode(
    x: Shaped[Array, "*shape"] | np.ndarray,
    *,
    layout: str = LAYOUT_ROWS16,
    implementation: Implementation = None,
) -> CompressedTensor:
    """Compress an array without losing a bit.

    Floats whose exponents are worth coding (bfloat16, float16, float32, float8_e4m3fn,
    float8_e5m2) become a `triple_bitmap` tensor, ZipServ's format with a patch list
    (docs/format.md); all else, and whatever would grow, is stored raw. The number of patches
    depends on the data, so this cannot be traced.

    Args:
        x: any shape, any fixed-size number type; NumPy or JAX. Never modified.
        layout: "rows16", for everything; "mma16x256" or "mma256x16" for matrices [..., N, K] or
            [..., K, N] of 16-bit floats that GPU kernels multiply by, K being summed over.
        implementation: "numpy" (host memory only), "xla", names in the order to try, or None for
            the best there is.

    Returns:
        tensor: its streams are NumPy arrays if `x` is one, else JAX arrays.

    Raises:
        ArgumentError: `x` is no array, or is being traced.
        UnsupportedError: a dtype that is not a native number, or one that the layout is not for.
    """
    if isinstance(x, jax.core.Tracer):
        raise ArgumentError(
            "encode takes its sizes from the data, so it cannot be traced",
            got=x.aval,
            fix="call encode_static(x, patch_capacity=...) under jit",
        )
    if not isinstance(x, np.ndarray | np.generic | jax.Array):
        raise ArgumentError("x must be a NumPy or JAX array", got=type(x).__name__)
    dtype_name(x.dtype)  # refuses what cannot be stored
    if layout != LAYOUT_ROWS16:
        stream_specs(
            TRIPLE_BITMAP, layout, np.dtype(x.dtype), tuple(x.shape)
        )  # refuses what it must
    is_numpy = not isinstance(x, jax.Array)
    if x.size and _is_coded(x.dtype):
        streams = dispatch("encode", _BACKENDS, implementation, x)
        if streams is not None:
            tensor = _triple_bitmap(x, streams)
            tensor = trim(tensor) if is_numpy else tensor
            if layout != LAYOUT_ROWS16:
                tensor = arrange_for_mma(x, tensor, layout)
            if tensor.nbytes < tensor.raw_nbytes:
                return tensor
    return _encode_raw(x, is_numpy)


def encode_static(
    x: Shaped[Array, "*shape"],
    *,
    patch_capacity: int,
    rare_capacity: int = 64,
    implementation: Implementation = None,
) -> tuple[CompressedTensor, jax.Array]:
    """Compress under `jit`, into a size that is known beforehand.

    Args:
        x: a float with coded exponents, any shape.
        patch_capacity: room for elements outside the window; about 0.017 of the elements on
        Gaussian data.
        rare_capacity: room for elements whose exponent is not among the 16 most frequent of those.
        implementation: as for `encode`.

    Returns:
        tensor: as `encode` makes it, its lists padded to their capacity (`trim` cuts them).
        overflow: bool[], whether a list was too short; `tensor` is then not `x`, so use `x` itself.

    Raises:
        ArgumentError: a negative capacity.
        UnsupportedError: a dtype without coded exponents.
    """
    if patch_capacity < 0 or rare_capacity < 0:
        raise ArgumentError(
            "capacities must be at least 0", got=f"{patch_capacity=}, {rare_capacity=}"
        )
    float_spec(x.dtype)
    streams, overflow = dispatch(
        "encode_static", _STATIC_BACKENDS, implementation, x, patch_capacity, rare_capacity
    )
    return _triple_bitmap(x, streams), overflow


def relayout(tensor: CompressedTensor, layout: str) -> CompressedTensor:
    """The same tensor in another order of its bits, e.g. for a GPU's kernels after loading.

    Decoded on the way, so it holds the whole array for a moment; a raw tensor is left as it is.

    Args:
        tensor: any.
        layout: as for `encode`.

    Raises:
        ArgumentError: the tensor is being traced.
        UnsupportedError: the layout is not for such a tensor.
    """
    if layout == tensor.layout or tensor.codec == RAW:
        return tensor
    streams = {name: jax.numpy.asarray(stream) for name, stream in tensor.streams.items()}
    on_device = CompressedTensor(tensor.codec, tensor.layout, tensor.dtype, tensor.shape, streams)
    return encode(decode_whole(on_device), layout=layout)


def trim(tensor: CompressedTensor) -> CompressedTensor:
    """Cut the lists of a tensor to what they hold, and its streams to NumPy, as files store them.

    Raises:
        ArgumentError: the tensor is being traced.
    """
    leaves = jax.tree.leaves(tensor)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise ArgumentError("trim takes sizes from the data, so it cannot be traced", got=tensor)
    streams: dict[str, Any] = {name: np.asarray(array) for name, array in tensor.streams.items()}
    if tensor.codec == TRIPLE_BITMAP and tensor.layout == LAYOUT_ROWS16:
        streams["patches"] = streams["patches"][: streams["patch_offsets"][-1]]
        held = streams["rare_tiles"] < streams["codes"].shape[0]
        for name in ("rare_tiles", "rare_entries"):
            streams[name] = streams[name][held]
    return CompressedTensor(tensor.codec, tensor.layout, tensor.dtype, tensor.shape, streams)


def _triple_bitmap(x: Any, streams: dict[str, Any]) -> CompressedTensor:
    shape = tuple(x.shape)
    return CompressedTensor(TRIPLE_BITMAP, LAYOUT_ROWS16, np.dtype(x.dtype), shape, streams)


def _is_coded(dtype: Any) -> bool:
    try:
        float_spec(dtype)
    except UnsupportedError:
        return False
    return True


def _encode_raw(x: np.ndarray | jax.Array, is_numpy: bool) -> CompressedTensor:
    """Through the host: not every dtype can be bitcast on a device."""
    streams: dict[str, Any] = raw.encode(np.asarray(x))
    if not is_numpy:
        streams = {name: jax.numpy.asarray(stream) for name, stream in streams.items()}
    return CompressedTensor(RAW, LAYOUT_RAW, np.dtype(x.dtype), tuple(x.shape), streams)
