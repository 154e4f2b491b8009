"""Every collective with its twins, forward and backward, in one table for all tests."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from parallel import reference


@dataclass(frozen=True)
class Case:
    """One way to call one collective.

    Attributes:
        op: its name.
        options: its arguments after the axis, made from the number of ranks.
        shape: of a local operand, made from the number of ranks.
        transpose: the twin of the gradient: (cotangent, axis, options) -> gradient.
    """

    op: str
    options: Callable[[int], dict]
    shape: Callable[[int], tuple[int, ...]]
    transpose: Callable


def _scatter(axis_key):
    def transpose(ct, axis, options):
        return reference.psum_scatter(
            ct, axis, scatter_dimension=options[axis_key], tiled=options["tiled"]
        )

    return transpose


def _gather(ct, axis, options):
    return reference.all_gather(ct, axis, axis=options["scatter_dimension"], tiled=options["tiled"])


def _exchange_back(ct, axis, options):
    return reference.all_to_all(
        ct, axis, options["concat_axis"], options["split_axis"], tiled=options["tiled"]
    )


def _permute_back(ct, axis, options):
    return reference.ppermute(ct, axis, [(to, source) for source, to in options["perm"]])


def _spread(ct, axis, options):
    return lax.pcast(ct, axis, to="varying")


CASES = {
    "all_gather": Case(
        "all_gather", lambda p: dict(axis=1, tiled=False), lambda p: (5, 1013), _scatter("axis")
    ),
    "all_gather tiled": Case(
        "all_gather", lambda p: dict(axis=-1, tiled=True), lambda p: (3, 7, 257), _scatter("axis")
    ),
    "psum_scatter": Case(
        "psum_scatter",
        lambda p: dict(scatter_dimension=1, tiled=False),
        lambda p: (11, p, 371),
        _gather,
    ),
    "psum_scatter tiled": Case(
        "psum_scatter",
        lambda p: dict(scatter_dimension=0, tiled=True),
        lambda p: (13 * p, 401),
        _gather,
    ),
    "psum": Case("psum", lambda p: {}, lambda p: (17, 2003), _spread),
    "psum of little": Case("psum", lambda p: {}, lambda p: (3, 1009), _spread),
    "all_to_all": Case(
        "all_to_all",
        lambda p: dict(split_axis=2, concat_axis=0, tiled=False),
        lambda p: (3, 1201, p),
        _exchange_back,
    ),
    "all_to_all tiled": Case(
        "all_to_all",
        lambda p: dict(split_axis=0, concat_axis=1, tiled=True),
        lambda p: (3 * p, 5, 307),
        _exchange_back,
    ),
    "ppermute": Case(
        "ppermute",
        lambda p: dict(perm=[(rank, (rank + 1) % p) for rank in range(p)]),
        lambda p: (4099,),
        _permute_back,
    ),
    "ppermute to some": Case(
        "ppermute",
        lambda p: dict(perm=[(rank, rank - 1) for rank in range(1, p)]),
        lambda p: (2, 2053),
        _permute_back,
    ),
}


def num_ranks(mesh: Mesh, axis) -> int:
    """Ranks of one axis or a tuple of axes."""
    return int(
        np.prod([mesh.shape[name] for name in (axis if isinstance(axis, tuple) else (axis,))])
    )


def forward_and_backward(mesh: Mesh, call: Callable) -> Callable:
    """Return `(x, ct) -> (y, gradient)` on global arrays with a leading dimension of devices."""

    def body(x, ct):
        y, pull = jax.vjp(call, x[0])
        return everywhere(mesh, y)[None], pull(typed_like(mesh, ct[0], y))[0][None]

    return on_devices(mesh, body, 2)


def twins(mesh: Mesh, axis, case: Case, options: dict) -> Callable:
    """Return the same with twins, of which the second is no derivative but a collective too."""

    def body(x, ct):
        y = getattr(reference, case.op)(x[0], axis, **options)
        gradient = case.transpose(typed_like(mesh, ct[0], y), axis, options)
        return everywhere(mesh, y)[None], gradient[None]

    return on_devices(mesh, body, 2)


def result_shape(mesh: Mesh, axis, case: Case, options: dict, dtype) -> tuple[int, ...]:
    """The local shape that a collective returns."""
    body = lambda x: everywhere(mesh, getattr(reference, case.op)(x[0], axis, **options))[None]
    x = jax.ShapeDtypeStruct((mesh.size, *case.shape(num_ranks(mesh, axis))), dtype)
    return jax.eval_shape(on_devices(mesh, body, 1), x).shape[1:]


def on_devices(mesh: Mesh, body: Callable, num_args: int) -> Callable:
    """Run `body` on each device with one row of every argument."""
    spec = P(mesh.axis_names)
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(spec,) * num_args, out_specs=spec))


def everywhere(mesh: Mesh, x):
    """Type `x` as varying over the whole mesh, so that every rank's copy is looked at."""
    missing = _missing(mesh, x)
    return lax.pcast(x, missing, to="varying") if missing else x


def typed_like(mesh: Mesh, x, y):
    """Make `x` equal on all ranks over the axes over which `y` is, by rank 0's copy."""
    missing = _missing(mesh, y)
    if not missing:
        return x
    bits = lax.bitcast_convert_type(x, np.dtype(f"uint{8 * x.dtype.itemsize}"))
    return lax.bitcast_convert_type(lax.all_gather(bits, missing, to="invarying")[0], x.dtype)


def _missing(mesh: Mesh, x) -> tuple[str, ...]:
    varying = jax.typeof(x).manual_axis_type.varying
    return tuple(name for name in mesh.axis_names if name not in varying)
