"""Mesh axis names inside `jax.shard_map`, and how an array is typed over them."""

from collections.abc import Hashable

import jax
import jax.numpy as jnp
from jax import lax

AxisName = Hashable | tuple[Hashable, ...]


def axis_tuple(axis_name: AxisName) -> tuple[Hashable, ...]:
    """One name or a tuple of names as a tuple, slowest first; ranks count in that order."""
    return axis_name if isinstance(axis_name, tuple) else (axis_name,)


def missing_axes(x: jax.Array, names: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Those of `names` over which `x` is not typed as varying."""
    varying = jax.typeof(x).manual_axis_type.varying
    return tuple(name for name in names if name not in varying)


def make_varying(x: jax.Array, names: tuple[Hashable, ...]) -> jax.Array:
    """Type `x` as varying over all of `names`; no bytes move. Not for differentiation."""
    missing = missing_axes(x, names)
    return lax.pcast(x, missing, to="varying") if missing else x


def types_are_tracked(names: tuple[Hashable, ...]) -> bool:
    """Whether the enclosing `jax.shard_map` has check_vma=True, and so types arrays by axis."""
    return not missing_axes(make_varying(jnp.zeros((), jnp.int32), names), names)
