"""The one place that decides how the operand of a collective travels.

What may be weighed later (speed of the link, of the codec, which leg of a hierarchy) enters here.
"""

from math import prod
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import DTypeLike

from pallas_kernels import ArgumentError, ExponentConfig, UnsupportedError, exponent_encode

Codec: TypeAlias = Literal["exponent"] | ExponentConfig | None

# Below this an operand is a matter of latency, and each stream of a payload is one more message.
SMALL_NBYTES = 1 << 16


def decide(codec: Codec, shape: tuple[int, ...], dtype: DTypeLike) -> ExponentConfig | None:
    """Return the configuration to encode an operand with, or None to send its bits as they are.

    Raw go: operands below `SMALL_NBYTES` unless the codec is an `ExponentConfig`, which asks for
    it whatever the size; dtypes that the exponent code does not know; and operands whose payload
    would not be smaller.

    Args:
        codec: what the caller asked for.
        shape: of one encoded operand, in elements; a part for one rank where parts differ.
        dtype: of the operand.
    """
    if codec is None:
        return None
    config = ExponentConfig() if isinstance(codec, str) else codec
    raw_nbytes = prod(shape) * jnp.dtype(dtype).itemsize
    if raw_nbytes < SMALL_NBYTES and isinstance(codec, str):
        return None
    try:
        payload = jax.eval_shape(
            lambda x: exponent_encode(x, config), jax.ShapeDtypeStruct(shape, dtype)
        )
    except UnsupportedError:
        return None
    return config if payload.nbytes < raw_nbytes else None


def checked_codec(codec: Codec) -> Codec:
    """Return `codec`, or refuse what is none.

    Raises:
        ArgumentError: when it is neither "exponent", an `ExponentConfig`, nor None.
    """
    if codec is None or isinstance(codec, ExponentConfig) or codec == "exponent":
        return codec
    raise ArgumentError('codec must be "exponent", an ExponentConfig, or None', got=repr(codec))
