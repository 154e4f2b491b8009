"""These tests want eight devices, so they run in a pytest process of their own."""

import socket

import jax
import pytest
from jax.sharding import Mesh

import parallel

jax.config.update("jax_num_cpu_devices", 8)


@pytest.fixture(scope="session")
def mesh() -> Mesh:
    """Two slow groups of four."""
    return parallel.make_mesh({"slow": 2, "fast": 4})


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]
