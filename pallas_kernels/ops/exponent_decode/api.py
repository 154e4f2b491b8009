"""Decode a tensor that came over the wire: the exact bits that were encoded."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.ops.exponent_decode import mosaic_gpu, reference
from pallas_kernels.payload import ExponentPayload
from pallas_kernels.shapes import Array, Shaped

_BACKENDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"mosaic_gpu": mosaic_gpu.exponent_decode, "xla": reference.exponent_decode}
)


def exponent_decode(
    payload: ExponentPayload, *, implementation: Implementation = None
) -> Shaped[Array, "*shape"]:
    """Decode a payload.

    Args:
        payload: made by `exponent_encode`; `jax.vmap` this function over a batch of them.
        implementation: "mosaic_gpu" (Ampere to Blackwell), "xla", names in the order to try, or
            None for the best there is.

    Returns:
        x: `payload.dtype` and `payload.shape`, bit for bit what was encoded. Undefined where
            `payload.overflow` is true.

    Raises:
        ArgumentError: no payload, or one whose streams have other shapes than its layout says.
    """
    if not isinstance(payload, ExponentPayload):
        raise ArgumentError("only an ExponentPayload can be decoded", got=type(payload).__name__)
    for name, (dtype, shape) in payload.layout.streams().items():
        stream = payload.streams[name]
        if stream.dtype != dtype or stream.shape != shape:
            raise ArgumentError(
                f"stream {name!r} must be {dtype.name}{list(shape)}",
                got=f"{stream.dtype.name}{list(stream.shape)}",
                fix="decode a batch of payloads with jax.vmap(exponent_decode)",
            )
    return dispatch("exponent_decode", _BACKENDS, implementation, payload)
