"""What callers cannot mean is refused, by name, before anything is traced into the program."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

import parallel
from pallas_kernels import ArgumentError

WRONG = {
    "codec": (
        lambda x: parallel.psum(x, "fast", codec="zip"),
        """codec must be "exponent", an ExponentConfig, or None; got 'zip'.""",
    ),
    "axis": (
        lambda x: parallel.all_gather(x, "fats"),
        "all_gather needs a mesh axis of an enclosing jax.shard_map; got axis_name='fats'; call it"
        " inside jax.shard_map over a mesh with that axis.",
    ),
    "gather axis": (
        lambda x: parallel.all_gather(x, "fast", axis=3),
        "axis must be one of the 3 dimensions; got 3.",
    ),
    "gather tiled axis": (
        lambda x: parallel.all_gather(x, "fast", axis=2, tiled=True),
        "axis must be one of the 2 dimensions; got 2.",
    ),
    "scatter tiled": (
        lambda x: parallel.psum_scatter(x, "fast", scatter_dimension=1, tiled=True),
        "the size of scatter_dimension=1 must be divisible by the 4 ranks of the axis; got shape"
        " (4, 6); pad the array.",
    ),
    "scatter": (
        lambda x: parallel.psum_scatter(x, "fast", scatter_dimension=1),
        "without tiled=True the size of scatter_dimension=1 must be the 4 ranks; got shape (4, 6);"
        " pass tiled=True to cut a longer axis into parts.",
    ),
    "exchange": (
        lambda x: parallel.all_to_all(x, "fast", 0, 2),
        "concat_axis must be one of the 2 dimensions; got 2.",
    ),
    "boolean sum": (
        lambda x: parallel.psum(x > 0, "fast"),
        "only numbers can be summed; got bool; cast to int32 first.",
    ),
    "source twice": (
        lambda x: parallel.ppermute(x, "fast", [(0, 1), (0, 2)]),
        "perm must name each source at most once, and only ranks 0 to 3; got [(0, 1), (0, 2)].",
    ),
    "destination too large": (
        lambda x: parallel.ppermute(x, "fast", [(0, 4)]),
        "perm must name each destination at most once, and only ranks 0 to 3; got [(0, 4)].",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refusal(mesh, name):
    call, message = WRONG[name]
    program = jax.shard_map(
        lambda x: call(x[0]), mesh=mesh, in_specs=P(("slow", "fast")), out_specs=P()
    )
    with pytest.raises(ArgumentError) as caught:
        jax.eval_shape(program, jnp.zeros((8, 4, 6)))
    assert str(caught.value) == message
