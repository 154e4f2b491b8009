"""The `mosaic_gpu` backend of `encode`: the main stream of the layouts for tensor cores."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.hardware import is_on_gpu
from pallas_kernels.mma import encode_words_of, require_fused_gpu


def encode_words(
    x: jax.Array, exponents: np.ndarray, layout: str, *, interpret: Any = False
) -> jax.Array:
    """The words of an array, see `tiles.encode_mma_words`.

    Raises:
        UnsupportedError: no GPU that the kernel runs on, whatever is assumed: this is not traced.
    """
    require_fused_gpu()
    if not (interpret or is_on_gpu(x)):
        raise UnsupportedError("the kernel takes arrays on a GPU", got=x.devices())
    return encode_words_of(x, jnp.asarray(exponents), layout, interpret=interpret)
