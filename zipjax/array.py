"""Compress and decompress arrays and whole pytrees of them, bit for bit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels import ArgumentError, CompressedTensor, decode, encode


def compress(tree: Any) -> Any:
    """Compress every array of a pytree; a single array is the smallest tree.

    Args:
        tree: NumPy or JAX arrays of any shape and fixed-size number dtype, in any pytree.
            What is compressed already stays as it is. Nothing is modified.

    Returns:
        The same tree with a `CompressedTensor` for each array. Its streams live where the array
        lived: in NumPy for NumPy, on the device for JAX.

    Raises:
        ArgumentError: a leaf is no array, or is being traced.
        UnsupportedError: a dtype that is no fixed-size number in this machine's byte order.
    """
    return jax.tree_util.tree_map_with_path(_compress_leaf, tree, is_leaf=is_compressed)


def decompress(tree: Any) -> Any:
    """Undo `compress`: every array has the dtype, shape and bits that it had.

    Args:
        tree: a pytree with `CompressedTensor`s; other arrays stay as they are.

    Returns:
        The same tree with arrays.

    Raises:
        ArgumentError: a leaf is neither compressed nor an array.
    """
    return jax.tree_util.tree_map_with_path(_decompress_leaf, tree, is_leaf=is_compressed)


def is_compressed(value: object) -> bool:
    """Whether `value` is a `CompressedTensor`; the `is_leaf` of trees that hold some."""
    return isinstance(value, CompressedTensor)


def require_array(path: tuple, value: object) -> None:
    """Refuse a leaf that is no array, saying where in the tree it is."""
    if isinstance(value, np.ndarray | np.generic):
        return
    if isinstance(value, jax.Array):
        if not jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return
        fix = "take jax.random.key_data of it first"
    else:
        fix = "wrap numbers in np.asarray, and leave other things out"
    where = f" at {jax.tree_util.keystr(path)}" if path else ""
    got = getattr(value, "dtype", type(value).__name__)
    raise ArgumentError("leaves must be NumPy or JAX arrays", got=f"{got}{where}", fix=fix)


def _compress_leaf(path: tuple, value: Any) -> CompressedTensor:
    if isinstance(value, CompressedTensor):
        return value
    require_array(path, value)
    return encode(np.asarray(value) if isinstance(value, np.generic) else value)


def _decompress_leaf(path: tuple, value: Any) -> Any:
    if isinstance(value, CompressedTensor):
        return decode(value)
    require_array(path, value)
    return value
