"""Decode a tensor that came over the wire: the exact bits that were encoded."""

from types import MappingProxyType

from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.ops.exponent_decode import reference
from pallas_kernels.payload import ExponentPayload
from pallas_kernels.shapes import Array, Shaped

_BACKENDS = MappingProxyType({"xla": reference.exponent_decode})


def exponent_decode(
    payload: ExponentPayload, *, implementation: Implementation = None
) -> Shaped[Array, "*shape"]:
    """Decode a payload.

    Args:
        payload: made by `exponent_encode`; `jax.vmap` this function over a batch of them.
        implementation: "xla", names in the order to try, or None for the best there is.

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
