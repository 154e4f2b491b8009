"""The kernels of the wire code in the configurations that are shipped, for `kernel_cases.py`."""

import jax
import jax.numpy as jnp

from pallas_kernels import ExponentConfig
from pallas_kernels.slots import vector_elems
from zipjax.dryrun import KernelCase, LoopWork

CONFIGS = {"default": ExponentConfig(), "gaussian": ExponentConfig.gaussian()}


def decode(dtype, num_elems, config):
    """`decode_near` and its operands."""
    from pallas_kernels.ops.exponent_decode.kernel import decode_near

    layout = CONFIGS[config].layout(jnp.dtype(dtype), num_elems)
    streams = {
        name: jax.ShapeDtypeStruct(shape, kind) for name, (kind, shape) in layout.streams().items()
    }
    return lambda s: decode_near(s, layout), (streams,)


def encode(dtype, num_elems, config):
    """`encode_near` and its operands."""
    from pallas_kernels.ops.exponent_encode.kernel import encode_near

    layout = CONFIGS[config].layout(jnp.dtype(dtype), num_elems)
    words = jax.ShapeDtypeStruct((num_elems,), layout.word_dtype)
    base = jax.ShapeDtypeStruct((layout.num_tiles, 16, 16), jnp.uint8)
    return lambda w, b: encode_near(w, b, layout), (words, base)


def _case(name, dtype, config, num_elems):
    layout = CONFIGS[config].layout(jnp.dtype(dtype), num_elems)
    return KernelCase(
        name=name,
        config={"dtype": dtype, "config": config, "elems": num_elems},
        factory=f"kernel_cases_wire:{name}",
        arguments={"dtype": dtype, "num_elems": num_elems, "config": config},
        work=LoopWork(weights_per_thread=16 * vector_elems(layout), loop="longest"),
    )
