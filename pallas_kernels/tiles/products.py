"""In which dtype operands of different dtypes are multiplied."""

import jax.numpy as jnp
import numpy as np

from pallas_kernels.format import float_spec


def matmul_dtype(x_dtype: np.dtype, weight_dtype: np.dtype) -> np.dtype:
    """The dtype to which both operands of x @ w are converted, without loss.

    As JAX promotes; but an 8-bit float, which JAX promotes to nothing, becomes the dtype of `x`.
    """
    if weight_dtype.itemsize == 1 and float_spec(weight_dtype):
        return np.dtype(x_dtype)
    return np.dtype(jnp.promote_types(x_dtype, weight_dtype))
