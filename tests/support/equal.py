"""Equality on bits: what lossless means here."""

import chex
import jax
import numpy as np


def bits(x) -> np.ndarray:
    """An array as unsigned integers (bytes where an element is wider than 8)."""
    x = np.ascontiguousarray(np.asarray(x))
    width = x.dtype.itemsize if x.dtype.itemsize in (1, 2, 4, 8) else 1
    return x.reshape(-1).view(np.dtype(f"u{width}"))


def assert_same_bits(got, want) -> None:
    """Two arrays, or trees of arrays, of the same structure, shapes, dtypes and bits."""
    chex.assert_trees_all_equal_structs(got, want)
    got_leaves = jax.tree_util.tree_leaves_with_path(got)
    for (path, a), b in zip(got_leaves, jax.tree.leaves(want), strict=True):
        name = jax.tree_util.keystr(path)
        assert np.asarray(a).dtype == np.asarray(b).dtype, name
        assert np.shape(a) == np.shape(b), name
        np.testing.assert_array_equal(bits(a), bits(b), err_msg=name)
