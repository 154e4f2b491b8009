"""Encode a tensor for the wire: static sizes, every bit, inside or outside `jit`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.format.slot_layout import check_dtype
from pallas_kernels.ops.exponent_encode import mosaic_gpu, reference
from pallas_kernels.payload import ExponentConfig, ExponentPayload
from pallas_kernels.shapes import Array, Shaped

_BACKENDS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"mosaic_gpu": mosaic_gpu.exponent_encode, "xla": reference.exponent_encode}
)
_DEFAULT = ExponentConfig()


def exponent_encode(
    x: Shaped[Array, "*shape"] | np.ndarray,
    config: ExponentConfig = _DEFAULT,
    *,
    implementation: Implementation = None,
) -> ExponentPayload:
    """Encode a tensor in the exponent code "position slots" (docs/wire-format.md).

    Sizes depend on shape, dtype and config alone, so it can be traced and mapped with `vmap`.

    Args:
        x: bfloat16, float16 or float32, any shape, 0-d and empty included. Never modified.
        config: how much room the payload keeps for exponents outside its windows.
        implementation: "mosaic_gpu" (Ampere to Blackwell), "xla", names in the order to try, or
            None for the best there is.

    Returns:
        payload: where its `overflow` is true it does not hold `x`; send `x` itself.

    Raises:
        ArgumentError: `x` is no array, or `config` no `ExponentConfig`.
        UnsupportedError: another dtype, or more elements than 32-bit positions reach.
    """
    if not isinstance(x, np.ndarray | np.generic | jax.Array):
        raise ArgumentError("x must be a NumPy or JAX array", got=type(x).__name__)
    if not isinstance(config, ExponentConfig):
        raise ArgumentError("config must be an ExponentConfig", got=type(config).__name__)
    check_dtype(x.dtype)  # before JAX, which would narrow float64
    return dispatch("exponent_encode", _BACKENDS, implementation, jnp.asarray(x), config)
