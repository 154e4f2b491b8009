"""When a weight is decoded: not before what it is multiplied by is there.

Decoding depends on nothing but the weight. So XLA would decode the weights of all layers first, or
once before a loop over tokens, and hold them all: 8 layers took 10 matrices (17 on jax 0.10.2)
instead of 2 to 3, and a compressed model more memory than a plain one.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.format import RAW
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.versions import BARRIERS_ORDER_PROGRAMS


def decoded_after(weight: CompressedTensor, x: jax.Array) -> CompressedTensor:
    """The weight as it is; but in a traced program, decoding it waits for `x`.

    `decode_matmul` does so by itself. Who calls `decode` inside a program calls this first.

    Args:
        weight: any compressed tensor; its streams may have leading axes.
        x: any array that the weight is about to meet.

    Returns:
        weight: to be decoded in the place of the one given.
    """
    # What is multiplied is the x from before the barrier, as in a plain program: XLA may leave out
    # roundings on the way into a product, but not across a barrier.
    _, weight = lax.optimization_barrier((x, jax.tree.map(jnp.asarray, weight)))
    if BARRIERS_ORDER_PROGRAMS or weight.codec == RAW or not x.size:
        return weight
    # Costs nothing either, but where x is sharded all devices need an element of it.
    element = lax.bitcast_convert_type(x.reshape(-1)[0], np.dtype(f"u{x.dtype.itemsize}"))
    # Zero, for no element has 128 bits; XLA does not see it.
    zero = (lax.population_count(element) >> 7).astype(jnp.uint8)
    exponents = weight.streams["exponents"] + zero
    return dataclasses.replace(weight, streams=weight.streams | {"exponents": exponents})
