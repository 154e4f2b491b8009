"""The `mosaic_gpu` backend of `exponent_decode`: one kernel, and XLA for the far list.

The kernel reads codes, remainder, slots and bases once and writes every word once. What is far is
completed by XLA, which costs in proportion to the list: 5 bytes read and a word touched for each of
its entries, used or not.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from pallas_kernels.ops.exponent_decode.reference import complete_far, split_side
from pallas_kernels.payload import ExponentPayload
from pallas_kernels.slots import require_wire_gpu


def exponent_decode(payload: ExponentPayload, *, interpret: Any = False) -> Array:
    """Decode `payload`; see `api.exponent_decode`.

    Args:
        payload: checked there.
        interpret: Pallas' interpret parameters, or False.

    Raises:
        UnsupportedError: there is no kernel for the GPU at hand.
    """
    require_wire_gpu()
    return _decode(payload, interpret)


@functools.partial(jax.jit, static_argnames="interpret")
def _decode(payload: ExponentPayload, interpret: Any) -> Array:
    layout = payload.layout
    if layout.num_elems == 0:
        return jnp.zeros(payload.shape, payload.dtype)
    # Half a second, which only programs with the kernel pay.
    from pallas_kernels.ops.exponent_decode.kernel import decode_near

    words = decode_near(payload.streams, layout, interpret=interpret)
    base, exponent, position = split_side(payload.streams["side"], layout)
    words = complete_far(words, base, exponent, position, layout)
    return lax.bitcast_convert_type(words, payload.dtype).reshape(payload.shape)
