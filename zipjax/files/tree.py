"""Pytrees as named tensors: how leaves are called, fetched to the host, and put back."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from pallas_kernels import ArgumentError, CompressedTensor
from zipjax.array import is_compressed, require_array
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import did_you_mean, shown

_LONE_LEAF = "value"


def tree_sources(tree: Any) -> list[TensorSource]:
    """The leaves of `tree`, named by their path: `{"a": [x]}` has `a.0`.

    Dicts keep the order in which they were filled, where JAX would sort them.

    Raises:
        ArgumentError: a leaf is no array, is spread over other processes, or two have one name.
    """
    sources: dict[str, TensorSource] = {}
    for path, leaf in _leaves_in_order(tree, ()):
        name = leaf_name(path)
        if name in sources:
            raise ArgumentError(
                "every leaf must have a name of its own",
                got=f"{shown(name)} twice",
                fix="rename a key that holds a dot",
            )
        sources[name] = _leaf_source(path, name, leaf)
    return list(sources.values())


def _leaves_in_order(tree: Any, path: tuple) -> Iterator[tuple[tuple, Any]]:
    if type(tree) is dict:
        for key, value in tree.items():
            yield from _leaves_in_order(value, (*path, jax.tree_util.DictKey(key)))
        return
    if type(tree) in (list, tuple):
        for index, value in enumerate(tree):
            yield from _leaves_in_order(value, (*path, jax.tree_util.SequenceKey(index)))
        return
    for inner, leaf in jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_compressed)[0]:
        yield (*path, *inner), leaf


def leaf_name(path: tuple) -> str:
    """The keys of `path` joined by dots; "value" for a tree that is one leaf."""
    return jax.tree_util.keystr(path, simple=True, separator=".") if path else _LONE_LEAF


def restore_like(
    tree: Any,
    names: set[str],
    read: Callable[[str], np.ndarray],
    read_compressed: Callable[[str], CompressedTensor],
) -> Any:
    """A tree like `tree` whose leaves are read from a file.

    Args:
        tree: NumPy arrays, JAX arrays, `jax.ShapeDtypeStruct`s or `CompressedTensor`s; only kind,
            dtype, shape and sharding of its leaves count. Leaves that are one object become one.
        names: names that the file has.
        read: gives a tensor by name.
        read_compressed: gives a tensor by name as it is stored.

    Raises:
        ArgumentError: names, dtypes or shapes of tree and file differ.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_compressed)
    wanted = [leaf_name(path) for path, _ in leaves]
    _require_same_names(wanted, names)
    restored: dict[int, Any] = {}
    for name, (_, leaf) in zip(wanted, leaves, strict=True):
        if id(leaf) not in restored:
            restored[id(leaf)] = _restore_leaf(name, leaf, read, read_compressed)
    return jax.tree_util.tree_unflatten(treedef, [restored[id(leaf)] for _, leaf in leaves])


def host_array(x: Any) -> np.ndarray:
    """`x` in host memory, without leaving a copy behind in a JAX array.

    `np.asarray(x)` of a JAX array keeps its result for as long as `x` lives, which for a whole
    model is a second copy of it in host memory; copies of the single shards are let go.
    """
    if not isinstance(x, jax.Array):
        return np.asarray(x)
    if x.is_fully_replicated:
        return np.asarray(x.addressable_data(0))
    result = np.empty(x.shape, x.dtype)
    for shard in x.addressable_shards:
        if shard.replica_id == 0:
            result[shard.index] = np.asarray(shard.data)
    return result


def _leaf_source(path: tuple, name: str, leaf: Any) -> TensorSource:
    if isinstance(leaf, CompressedTensor):
        return TensorSource(name=name, dtype=leaf.dtype, shape=leaf.shape, read=lambda: leaf)
    require_array(path, leaf)
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable | leaf.is_fully_replicated:
        raise ArgumentError(
            "arrays must be whole on this process",
            got=f"{shown(name)} spread over several processes",
            fix="gather it first, as with jax.experimental.multihost_utils.process_allgather",
        )
    dtype, shape = np.dtype(leaf.dtype), tuple(leaf.shape)
    return TensorSource(name=name, dtype=dtype, shape=shape, read=lambda: host_array(leaf))


def _require_same_names(wanted: list[str], names: set[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ArgumentError(
            f"the file must have a tensor {shown(missing[0])} as the tree does",
            got=f"{len(missing)} of {len(wanted)} missing",
            fix=did_you_mean(missing[0], names),
        )
    extra = sorted(names - set(wanted))
    if extra:
        raise ArgumentError(
            "the tree must have a place for every tensor read",
            got=f"{len(extra)} without, such as {shown(extra[0])}",
            fix="choose with names=",
        )


def _restore_leaf(
    name: str,
    leaf: Any,
    read: Callable[[str], np.ndarray],
    read_compressed: Callable[[str], CompressedTensor],
) -> Any:
    got = read_compressed(name) if isinstance(leaf, CompressedTensor) else read(name)
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        raise ArgumentError("leaves must have dtype and shape", got=type(leaf).__name__)
    if got.dtype != leaf.dtype or tuple(got.shape) != tuple(leaf.shape):
        raise ArgumentError(
            f"{shown(name)} must be {leaf.dtype}{list(leaf.shape)} as in the tree",
            got=f"{got.dtype}{list(got.shape)} in the file",
        )
    if not isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return got
    placed = jax.device_put(got, getattr(leaf, "sharding", None))
    if placed.dtype != leaf.dtype:
        raise ArgumentError(
            f"JAX must hold {shown(name)} as {leaf.dtype}",
            got=placed.dtype,
            fix="set jax_enable_x64, or restore into NumPy arrays",
        )
    return placed
