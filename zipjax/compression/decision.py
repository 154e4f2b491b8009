"""What becomes of each variable of a model, decided before anything is changed."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from pallas_kernels import ArgumentError, UnsupportedError, dtype_name
from zipjax.compression.inventory import Held, Holder
from zipjax.compression.rules import DEFAULT_ACTION, Rule, find_rule
from zipjax.nn import CompressedParam, Twins, find_twin

CODED = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")


class Decision(NamedTuple):
    """What becomes of one variable.

    Attributes:
        held: the variable and who holds it.
        num_stacked: leading axes that count layers or experts.
        reason: why it is left; empty when it is to be compressed.
    """

    held: Held
    num_stacked: int
    reason: str


def decide(held: Held, rules: tuple[Rule, ...], twins: Twins | None) -> Decision:
    """Decide about one variable.

    Raises:
        ArgumentError: it has no array: the model is abstract, or being traced.
        UnsupportedError: its array is spread over processes.
    """
    variable, first = held.variable, held.holders[0]
    if isinstance(variable, CompressedParam):
        return Decision(held, 0, "compressed already")
    if not isinstance(variable, nnx.Param):
        return Decision(held, 0, f"a {type(variable).__name__} is no parameter")
    rule = find_rule(rules, first.path, first.variable_path)
    if (rule.action if rule else DEFAULT_ACTION) == "leave":
        return Decision(held, 0, f"rule {rule.pattern.pattern!r}" if rule else "the default")
    reasons = [_holder_reason(holder, twins) for holder in held.holders]
    for holder, reason in zip(held.holders, reasons, strict=True):
        if reason:
            shared = f", shared by {first.variable_path}" if holder is not first else ""
            return Decision(held, 0, reason + shared)
    reason = _array_reason(variable, first.variable_path)
    num_stacked = 0
    if not reason:
        num_axes = _matrix_ndim(first, twins)
        num_stacked = variable.get_raw_value().ndim - num_axes
        if num_stacked < 0:
            reason = f"{variable.get_raw_value().ndim} axes where the layer wants {num_axes}"
    return Decision(held, num_stacked, reason)


def _holder_reason(holder: Holder, twins: Twins | None) -> str:
    cls = type(holder.node)
    twin = find_twin(cls, twins)
    if twin is None:
        return f"{cls.__name__} has no twin"
    names = twin.matrix_ndims(holder.node)
    if holder.name not in names:
        return f"of {cls.__name__} only {', '.join(names)} is compressed"
    return ""


def _matrix_ndim(holder: Holder, twins: Twins | None) -> int:
    twin = find_twin(type(holder.node), twins)
    assert twin is not None, "_holder_reason comes first"
    return twin.matrix_ndims(holder.node)[holder.name]


def _array_reason(variable: nnx.Variable, path: str) -> str:
    metadata = variable.get_metadata()
    if metadata.get("ref") or metadata.get("hijax"):
        return "a mutable reference is no constant"
    array: Any = variable.get_raw_value()
    if isinstance(array, jax.ShapeDtypeStruct | jax.core.Tracer):
        raise ArgumentError(
            "only a model with arrays can be compressed",
            got=f"{path}: {type(array).__name__}",
            fix="call compress_model outside of jit and eval_shape",
        )
    if not isinstance(array, jax.Array | np.ndarray):
        return f"a {type(array).__name__} is no array"
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
        raise UnsupportedError(
            "a process can only compress arrays that it holds whole",
            got=f"{path}, spread over processes",
            fix="compress before spreading the model",
        )
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return f"{array.dtype} is no float"
    if dtype_name(array.dtype) not in CODED:
        return f"{dtype_name(array.dtype)} has no exponents to code"
    return ""
