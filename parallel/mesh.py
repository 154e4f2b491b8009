"""Device meshes whose axes are named from the slowest link to the fastest."""

from collections.abc import Mapping, Sequence
from math import prod

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from pallas_kernels import ArgumentError


def make_mesh(axis_sizes: Mapping[str, int], *, devices: Sequence | None = None) -> Mesh:
    """Build a mesh on the devices at hand.

    Devices are ordered by process, then by their number within it, and laid out row by row. So
    neighbours on the last axis share a process wherever the sizes allow it, and the first axis
    is the one that crosses processes: name axes from slow to fast.

    Axis types are `AxisType.Auto`, unlike `jax.make_mesh`, whose default is `Explicit`: code
    outside `jax.shard_map` (initialisers, optimizers) then needs no sharding annotations, and
    inside it every axis is manual anyway.

    Args:
        axis_sizes: names to sizes, from the slowest axis to the fastest. One size may be -1: it
            takes the devices that the others leave.
        devices: devices to lay out; all of `jax.devices()` when None.

    Returns:
        The mesh, with axes in the order given.

    Raises:
        ArgumentError: when a size is no positive integer (or a single -1), or the sizes do not
            use up exactly the devices.
    """
    devices = list(jax.devices() if devices is None else devices)
    names = tuple(axis_sizes)
    sizes = _fill_in(dict(axis_sizes), len(devices))
    devices.sort(key=lambda device: (device.process_index, device.id))
    grid = np.array(devices, dtype=object).reshape(sizes)
    return Mesh(grid, names, axis_types=(AxisType.Auto,) * len(names))


def _fill_in(axis_sizes: dict[str, int], num_devices: int) -> tuple[int, ...]:
    """Replace a -1 by what is left, and check that the sizes multiply to the devices."""
    if not axis_sizes:
        raise ArgumentError("a mesh needs at least one axis", fix='pass e.g. {"data": -1}')
    for name, size in axis_sizes.items():
        if (
            isinstance(size, bool)
            or not isinstance(size, int | np.integer)
            or size == 0
            or size < -1
        ):
            raise ArgumentError(
                f"the size of mesh axis {name!r} must be a positive integer or -1", got=repr(size)
            )
    free = [name for name, size in axis_sizes.items() if size == -1]
    if len(free) > 1:
        raise ArgumentError("only one mesh axis may have size -1", got=free)
    taken = prod(size for size in axis_sizes.values() if size != -1)
    if free and num_devices % taken == 0 and num_devices:
        axis_sizes[free[0]] = num_devices // taken
    elif free or taken != num_devices:
        raise ArgumentError(
            f"mesh axis sizes must {'divide' if free else 'multiply to'} the {num_devices} devices",
            got=axis_sizes,
            fix="change the sizes, or pass `devices=` with as many as you want to use",
        )
    return tuple(int(size) for size in axis_sizes.values())
