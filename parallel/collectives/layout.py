"""Between `jax.lax`'s tiled and untiled axes and the form the legs use: ranks lead.

Every collective here moves `[P, ...]` (one part per rank) or makes it. These reshapes are all
that `tiled`, `axis`, `split_axis` and `scatter_dimension` mean.
"""

import jax
import jax.numpy as jnp

from pallas_kernels import ArgumentError


def split_parts(x: jax.Array, num_ranks: int, dim: int, *, tiled: bool, what: str) -> jax.Array:
    """Cut `x` along `dim` into one part per rank: [P, ...].

    Tiled keeps `dim` in the parts, 1/P as long; untiled wants it P long and removes it.
    """
    dim = canonical_dim(dim, x.ndim, what)
    size = x.shape[dim]
    if tiled and size % num_ranks:
        raise ArgumentError(
            f"the size of {what}={dim} must be divisible by the {num_ranks} ranks of the axis",
            got=f"shape {x.shape}",
            fix="pad the array",
        )
    if not tiled and size != num_ranks:
        raise ArgumentError(
            f"without tiled=True the size of {what}={dim} must be the {num_ranks} ranks",
            got=f"shape {x.shape}",
            fix="pass tiled=True to cut a longer axis into parts",
        )
    if tiled:
        x = x.reshape(*x.shape[:dim], num_ranks, size // num_ranks, *x.shape[dim + 1 :])
    return jnp.moveaxis(x, dim, 0)


def join_parts(parts: jax.Array, dim: int, *, tiled: bool) -> jax.Array:
    """Undo `split_parts`: concatenate parts [P, ...] along `dim` >= 0, or stack them there."""
    x = jnp.moveaxis(parts, 0, dim)
    if tiled:
        x = x.reshape(*x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :])
    return x


def canonical_dim(dim: int, ndim: int, what: str) -> int:
    """Count a negative dimension from the end."""
    if not -ndim <= dim < ndim:
        raise ArgumentError(f"{what} must be one of the {ndim} dimensions", got=dim)
    return dim % ndim
