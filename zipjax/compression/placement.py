"""Where streams go: each device gets the streams of the part of the matrix that it had."""

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from pallas_kernels import CompressedTensor


def cuts_of(array: Any, num_stacked: int) -> tuple[int, ...]:
    """Into how many parts each axis of a matrix is cut over the mesh; all 1 without a mesh."""
    matrix = array.shape[num_stacked:]
    sharding = getattr(array, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return (1,) * len(matrix)
    part = sharding.shard_shape(array.shape)[num_stacked:]
    return tuple(size // own if own else 1 for size, own in zip(matrix, part, strict=True))


def place_streams(
    tensor: CompressedTensor, like: Any, num_stacked: int, cut_dims: tuple[int, ...]
) -> CompressedTensor:
    """Put NumPy streams where the array was.

    Args:
        tensor: of one piece, its streams under leading axes.
        like: the array that was compressed; streams of a NumPy array stay in NumPy.
        num_stacked: leading axes that count layers or experts.
        cut_dims: axes of the matrix that are cut.
    """
    if isinstance(like, np.ndarray):
        return tensor
    # An array that may go anywhere gets streams that may: committed ones would be another program.
    is_free = isinstance(like, jax.Array) and not like.committed
    target = None if is_free else stream_sharding(like.sharding, num_stacked, cut_dims)
    return jax.tree.map(lambda stream: jax.device_put(stream, target), tensor)


def is_placeable(array: Any) -> bool:
    """Whether the streams can follow the array: it is on one device or on a named mesh."""
    known = NamedSharding | SingleDeviceSharding
    return not isinstance(array, jax.Array) or isinstance(array.sharding, known)


def plain_sharding(
    tensor: CompressedTensor, num_stacked: int, cut_dims: tuple[int, ...]
) -> NamedSharding | None:
    """The sharding that the array had, by that of its streams; None for any that has no mesh."""
    sharding = getattr(tensor.streams["exponents"], "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return None
    lead = (*sharding.spec, *[None] * (num_stacked + len(cut_dims)))
    matrix: list[Any] = [None] * len(tensor.shape)
    for dim, axes in zip(cut_dims, lead[num_stacked:], strict=False):
        matrix[dim] = axes
    spec = P(*lead[:num_stacked], *matrix)
    return NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind)


def stream_sharding(sharding: Any, num_stacked: int, cut_dims: tuple[int, ...]) -> Any:
    """The sharding of streams that goes with that of an array."""
    if not isinstance(sharding, NamedSharding):
        return sharding
    spec = (*sharding.spec, *[None] * (num_stacked + max(cut_dims, default=-1) + 1))
    lead = P(*spec[:num_stacked], *(spec[num_stacked + dim] for dim in cut_dims))
    return NamedSharding(sharding.mesh, lead, memory_kind=sharding.memory_kind)
