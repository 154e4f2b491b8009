"""Strict JAX for every test: no silent promotion of ranks, and the CPU unless told otherwise."""

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_collection_modifyitems(items):
    """Tests marked `gpu` say why they do not run where there is none."""
    if jax.default_backend() == "gpu":
        return
    skip = pytest.mark.skip(reason="JAX sees no GPU; interpret mode and compilation stand in")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)
