"""`compress_model`: a model's matrices become compressed ones, in place and one at a time."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from pallas_kernels import ArgumentError, dtype_name
from zipjax.compression.decision import Decision, decide
from zipjax.compression.inventory import Held, take_inventory
from zipjax.compression.placement import cuts_of, is_placeable, place_streams
from zipjax.compression.report import CompressionReport, ReportRow
from zipjax.compression.rules import parse_rules, require_all_used
from zipjax.nn import CompressedParam, PlainVariable, Twins, become_twin, encode_pieces, find_twin

NOT_SMALLER = "it would not get smaller"


def compress_model(
    model: nnx.Module,
    *,
    rules: Mapping[str, str] | None = None,
    twins: Twins | None = None,
) -> CompressionReport:
    """Compress the matrices of a model in place; its results stay the same bits.

    Layers that have a twin (`zipjax.nn.TWINS`: Linear, LinearGeneral, Einsum, Conv, Embed,
    LoRALinear, SwigluExperts) become it, wherever they are: in lists, in dicts, shared, or stacked
    by `nnx.vmap`. Nothing else changes, and what is left is reported with the reason. Matrices go
    one by one, and each plain one is given up before the next is compressed: there are never two
    copies of the model. On a mesh every device keeps the streams of its own part.

    Args:
        model: any NNX model with arrays. Changed in place.
        rules: what to do with which layers: regular expressions that match a whole path, of a layer
            ("layers.3.mlp.up") or a parameter ("layers.3.mlp.up.kernel"), each with "triple_bitmap"
            or "leave". The first that matches decides; what none matches is compressed.
        twins: twins of further classes, or others than ours.

    Returns:
        What was done; `print` it.

    Raises:
        ArgumentError: `model` is no module or has no arrays, or a rule is wrong or matches nothing.
        UnsupportedError: an array is spread over processes.
    """
    if not isinstance(model, nnx.Module):
        raise ArgumentError("model must be an nnx.Module", got=type(model).__name__)
    parsed = parse_rules(rules)
    inventory = take_inventory(model)
    require_all_used(parsed, _paths(inventory))
    decisions = [decide(held, parsed, twins) for held in inventory]
    del inventory
    rows = []
    for i in range(len(decisions)):
        rows.append(_carry_out(decisions[i], twins))
        decisions[i] = None  # type: ignore[call-overload] # nobody holds the plain array any more
    return CompressionReport(tuple(rows))


def _paths(inventory: list[Held]) -> list[str]:
    holders = [held.holders[0] for held in inventory]
    return [path for holder in holders for path in (holder.path, holder.variable_path)]


def _carry_out(decision: Decision, twins: Twins | None) -> ReportRow:
    held = decision.held
    if decision.reason:
        return _row_left(held, decision.reason)
    array: Any = held.variable.get_raw_value()
    if not is_placeable(array):
        return _row_left(held, f"its sharding is {type(array.sharding).__name__}")
    cuts = cuts_of(array, decision.num_stacked)
    tensor = encode_pieces(np.asarray(array), num_stacked=decision.num_stacked, cuts=cuts)
    if tensor is None:
        return _row_left(held, NOT_SMALLER)
    cut_dims = tuple(dim for dim, cut in enumerate(cuts) if cut > 1)
    tensor = place_streams(tensor, array, decision.num_stacked, cut_dims)
    param = CompressedParam(tensor, plain=PlainVariable.of(held.variable), cut_dims=cut_dims)
    for holder in held.holders:
        twin = find_twin(type(holder.node), twins)
        assert twin is not None, "the decision says so"
        become_twin(holder.node, twin.cls, {holder.name: param})
    return _row_compressed(held, param)


def _row_left(held: Held, reason: str) -> ReportRow:
    if isinstance(held.variable, CompressedParam):
        return _row_compressed(held, held.variable, reason)
    leaves = [leaf for leaf in jax.tree.leaves(held.variable) if hasattr(leaf, "dtype")]
    first = leaves[0] if leaves else np.zeros(0, np.uint8)
    nbytes = sum(_nbytes(leaf) for leaf in leaves)
    return _row(held, first.dtype, first.shape, nbytes, nbytes, False, reason)


def _row_compressed(held: Held, param: CompressedParam, reason: str = "") -> ReportRow:
    others = ", ".join(holder.variable_path for holder in held.holders[1:])
    reason = reason or (f"also {others}" if others else "")
    tensor = param.get_raw_value()
    return _row(held, tensor.dtype, param.shape, param.raw_nbytes, tensor.nbytes, True, reason)


def _row(
    held: Held,
    dtype: Any,
    shape: tuple[int, ...],
    raw_nbytes: int,
    nbytes: int,
    compressed: bool,
    reason: str,
) -> ReportRow:
    first = held.holders[0]
    return ReportRow(
        path=first.variable_path,
        layer=type(first.node).__name__,
        dtype=_name(dtype),
        shape=tuple(shape),
        raw_nbytes=raw_nbytes,
        nbytes=nbytes,
        compressed=compressed,
        reason=reason,
    )


def _nbytes(leaf: Any) -> int:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf).nbytes
    return leaf.nbytes


def _name(dtype: Any) -> str:
    is_extended = jnp.issubdtype(dtype, jax.dtypes.extended)
    return str(dtype) if is_extended else dtype_name(np.dtype(dtype))
