"""What the lowered and compiled programs hold: no reduce-scatter, and no float on the wire."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import parallel
from tests.parallel.calls import CASES, forward_and_backward, num_ranks, result_shape
from tests.parallel.test_exact import ALWAYS

REDUCE_SCATTER = re.compile(r"stablehlo\.reduce_scatter| reduce-scatter(-start)?\(")
MOVERS = ("all_gather", "all_to_all", "collective_permute")


def lowered(mesh, case, codec, dtype="bfloat16"):
    options = case.options(num_ranks(mesh, "fast"))
    op = getattr(parallel, case.op)
    program = forward_and_backward(mesh, lambda x: op(x, "fast", **options, codec=codec))
    x = jax.ShapeDtypeStruct((8, *case.shape(4)), dtype)
    ct = jax.ShapeDtypeStruct((8, *result_shape(mesh, "fast", case, options, dtype)), dtype)
    return program.lower(x, ct)


@pytest.mark.parametrize("codec", [None, ALWAYS], ids=["raw", "coded"])
@pytest.mark.parametrize("name", CASES)
def test_no_reduce_scatter(mesh, name, codec):
    """It returns wrong sums on CPU now and then (jax-ml/jax issue 40830)."""
    program = lowered(mesh, CASES[name], codec)
    assert not REDUCE_SCATTER.search(program.as_text())
    if codec is None:  # XLA could still make one of other collectives
        assert not REDUCE_SCATTER.search(program.compile().as_text())


def test_reduce_scatter_would_be_found(mesh):
    """The test above can fail: JAX's own gradient of an all_gather is one."""
    program = forward_and_backward(mesh, lambda x: lax.all_gather(x, "fast", tiled=True))
    x, ct = (jax.ShapeDtypeStruct((8, n, 16), jnp.float32) for n in (4, 16))
    assert REDUCE_SCATTER.search(program.lower(x, ct).as_text())
    assert REDUCE_SCATTER.search(program.lower(x, ct).compile().as_text())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_floats_travel_as_bits(mesh, name, dtype):
    """A float would travel at double width on CPU, if it has less than 32 bits."""
    text = lowered(mesh, CASES[name], None, dtype).as_text()
    moved = [line for line in text.splitlines() if any(f"stablehlo.{m}" in line for m in MOVERS)]
    assert moved
    assert all(re.search(r"-> tensor<[\dx]*ui(8|16|32)>", line) for line in moved)
