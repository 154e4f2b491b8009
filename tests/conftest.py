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


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Compiled programs make mappings, of which a process has 65,530: XLA crashes beyond them."""
    yield
    with open("/proc/self/maps") as maps:
        num_maps = sum(1 for _ in maps)
    if num_maps > 20_000:
        jax.clear_caches()
