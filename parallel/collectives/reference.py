"""The twins: what each collective returns, by `jax.lax` or by its definition, in plain sight.

Inside `jax.shard_map` like the collectives, with the same arguments less `codec`. They are for
tests and for reading: slow, and without derivatives. Floats are moved as bits, because XLA on
CPU widens bfloat16 and float8 on the way and makes quiet NaNs of signalling ones.
"""

from collections.abc import Sequence

import jax
from jax import lax

from parallel.collectives.axes import AxisName, axis_tuple, make_varying
from parallel.collectives.layout import split_parts
from parallel.collectives.rank_sum import rank_sum
from parallel.wire import from_wire, to_wire


def all_gather(
    x: jax.Array, axis_name: AxisName, *, axis: int = 0, tiled: bool = False
) -> jax.Array:
    """Gather by `jax.lax`."""
    return from_wire(lax.all_gather(to_wire(x), axis_name, axis=axis, tiled=tiled), x.dtype)


def psum_scatter(
    x: jax.Array, axis_name: AxisName, *, scatter_dimension: int = 0, tiled: bool = False
) -> jax.Array:
    """Gather everything, add in rank order, round once, keep this rank's part."""
    names = axis_tuple(axis_name)
    total = make_varying(psum(x, axis_name), names)
    parts = split_parts(
        total, lax.axis_size(names), scatter_dimension, tiled=tiled, what="scatter_dimension"
    )
    return lax.dynamic_index_in_dim(parts, lax.axis_index(names), keepdims=False)


def psum(x: jax.Array, axis_name: AxisName) -> jax.Array:
    """Gather everything, add in rank order, round once."""
    gathered = lax.all_gather(to_wire(x), axis_tuple(axis_name), to="invarying")
    return rank_sum(from_wire(gathered, x.dtype))


def all_to_all(
    x: jax.Array, axis_name: AxisName, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> jax.Array:
    """Exchange by `jax.lax`."""
    return from_wire(
        lax.all_to_all(to_wire(x), axis_name, split_axis, concat_axis, tiled=tiled), x.dtype
    )


def ppermute(x: jax.Array, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> jax.Array:
    """Permute by `jax.lax`."""
    return from_wire(lax.ppermute(to_wire(x), axis_name, perm), x.dtype)
