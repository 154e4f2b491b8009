"""The `xla` backend of `decode`: plain `jnp`, the same bits as `codecs.triple_bitmap`."""

import jax

from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import decode_whole


def decode(tensor: CompressedTensor) -> jax.Array:
    """Decode on the device.

    Raises:
        UnsupportedError: a raw tensor of a dtype that JAX cannot hold, or not bitcast while traced.
    """
    return decode_whole(tensor)
