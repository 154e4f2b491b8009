"""The `mosaic_gpu` backend of `exponent_encode`: two kernels, and XLA for what is small.

The first kernel reads the sample of every run, its first 64 elements, for the base; the second
reads every element once and writes every stream once. XLA does

- between them the lift and the bases of empty samples: 6 bytes for each run;
- after them the far list: 2 bytes for each group of 256 elements, and for each entry of the list
  32 bytes of marks, an element and its base.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from pallas_kernels.ops.exponent_encode.far_list import list_marked
from pallas_kernels.payload import ExponentConfig, ExponentPayload
from pallas_kernels.slots import require_wire_gpu


def exponent_encode(x: Array, config: ExponentConfig, *, interpret: Any = False) -> ExponentPayload:
    """Encode `x`; see `api.exponent_encode`.

    Args:
        x: checked there.
        config: the payload's.
        interpret: Pallas' interpret parameters, or False.

    Raises:
        UnsupportedError: there is no kernel for the GPU at hand.
    """
    require_wire_gpu()
    return _encode(x, config, interpret)


@functools.partial(jax.jit, static_argnames=("config", "interpret"))
def _encode(x: Array, config: ExponentConfig, interpret: Any) -> ExponentPayload:
    layout = config.layout(x.dtype, x.size)
    if x.size == 0:
        streams = {name: jnp.zeros(s, d) for name, (d, s) in layout.streams().items()}
        return ExponentPayload(streams=streams, shape=x.shape, dtype=x.dtype, config=config)
    # Half a second, which only programs with the kernel pay.
    from pallas_kernels.ops.exponent_encode.kernel import encode_near
    from pallas_kernels.ops.exponent_encode.kernel_sample import choose_base

    words = lax.bitcast_convert_type(x, layout.word_dtype).reshape(-1)
    base = choose_base(words, layout, interpret=interpret)
    streams = encode_near(words, base, layout, interpret=interpret)
    marks = (streams.pop("num_listed"), streams.pop("listed"))
    streams["side"] = list_marked(words, base, *marks, layout)
    return ExponentPayload(streams=streams, shape=x.shape, dtype=x.dtype, config=config)
