"""Which layers have a twin, and how one becomes the other in place."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from flax import nnx

from pallas_kernels import ArgumentError, CompressedTensor, dtype_name
from zipjax.nn.compressed_experts import CompressedSwigluExperts
from zipjax.nn.compressed_layers import (
    CompressedConv,
    CompressedEinsum,
    CompressedEmbed,
    CompressedLinear,
    CompressedLinearGeneral,
    CompressedLoRALinear,
)
from zipjax.nn.compressed_linen import CompressedToNNX, bridged_params
from zipjax.nn.compressed_param import CompressedParam, PlainVariable
from zipjax.nn.experts import SwigluExperts
from zipjax.nn.pieces import fill_empty_lists, num_lead_axes, whole_shape


class Twin(NamedTuple):
    """The compressed twin of a class of layers.

    Attributes:
        cls: subclass of the plain class that can compute with `CompressedParam`s.
        matrix_ndims: by name of an attribute that may be compressed, from the layer, the number of
            axes of its matrix; axes before them count stacked layers or experts.
    """

    cls: type[nnx.Module]
    matrix_ndims: Callable[[Any], dict[str, int]]


Twins = Mapping[type[nnx.Module], Twin]

TWINS: Twins = MappingProxyType(
    {
        nnx.Linear: Twin(CompressedLinear, lambda _: {"kernel": 2}),
        nnx.LoRALinear: Twin(CompressedLoRALinear, lambda _: {"kernel": 2}),
        nnx.LinearGeneral: Twin(
            CompressedLinearGeneral,
            lambda layer: {
                "kernel": len(layer.batch_axis) + len(layer.in_features) + len(layer.out_features)
            },
        ),
        nnx.Einsum: Twin(CompressedEinsum, lambda layer: {"kernel": len(layer.kernel_shape)}),
        nnx.Conv: Twin(CompressedConv, lambda layer: {"kernel": len(layer.kernel_shape)}),
        nnx.Embed: Twin(CompressedEmbed, lambda _: {"embedding": 2}),
        nnx.bridge.ToNNX: Twin(
            CompressedToNNX,
            # Which axes a Linen module would stack is not known: every matrix is one.
            lambda layer: {
                name: len(param.shape)
                for name, param in bridged_params(layer).items()
                if len(param.shape) > 1
            },
        ),
        SwigluExperts: Twin(CompressedSwigluExperts, lambda _: {"gate": 2, "up": 2, "down": 2}),
    }
)


def set_compressed(
    layer: nnx.Module,
    tensors: dict[str, CompressedTensor],
    *,
    cut_dims: dict[str, tuple[int, ...]] | None = None,
    twin: type[nnx.Module] | None = None,
) -> None:
    """Turn a plain layer into its twin, in place, around tensors that are already compressed.

    The layer may be abstract (`nnx.eval_shape`), so a model can be loaded in compressed form
    without ever being there in plain form.

    Args:
        layer: plain, of a class in `TWINS`, or its twin already.
        tensors: by name of the attribute; the array's bits in the layout of the plain layer,
            [*stack, *matrix] (see `zipjax.nn.pieces` for stacks).
        cut_dims: by name, the axes of the matrix that are cut; none by default.
        twin: class to become, when `TWINS` has none.

    Raises:
        ArgumentError: no twin, no such parameter, or another shape or dtype than the parameter's.
    """
    cls = twin or _require_twin(type(layer))
    params = {}
    for name, tensor in tensors.items():
        cuts = (cut_dims or {}).get(name, ())
        plain = get_variable(layer, name)
        if not isinstance(plain, nnx.Variable) or isinstance(plain, CompressedParam):
            raise ArgumentError(
                f"{type(layer).__name__}.{name} must be a plain parameter",
                got=type(plain).__name__,
            )
        _check_same_array(f"{type(layer).__name__}.{name}", plain.get_raw_value(), tensor, cuts)
        tensor = fill_empty_lists(tensor) if not num_lead_axes(tensor) else tensor
        params[name] = CompressedParam(tensor, plain=PlainVariable.of(plain), cut_dims=cuts)
    become_twin(layer, cls, params)


def become_twin(
    layer: nnx.Module, cls: type[nnx.Module], params: dict[str, CompressedParam]
) -> None:
    """Put compressed parameters into a layer, whose class must then know them."""
    for name, param in params.items():
        set_variable(layer, name, param)
    change_class(layer, cls)


def get_variable(layer: nnx.Module, name: str) -> Any:
    """An attribute of a layer, or with a dotted name an entry of its dicts; None if not there."""
    first, *inner = name.split(".")
    node = getattr(layer, first, None)
    for key in inner:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def set_variable(layer: nnx.Module, name: str, variable: nnx.Variable) -> None:
    """Set an attribute of a layer, or with a dotted name an entry of its dicts."""
    *outer, last = name.split(".")
    if not outer:
        setattr(layer, name, variable)
        return
    node = getattr(layer, outer[0])
    for key in outer[1:]:
        node = node[key]
    node[last] = variable


def change_class(layer: nnx.Module, cls: type[nnx.Module]) -> None:
    """Change the class of a layer in place, so that whoever shares it shares the twin.

    Not by assignment: a module takes note of every attribute that is assigned, for its graph.
    """
    object.__setattr__(layer, "__class__", cls)


def find_twin(cls: type, twins: Twins | None = None) -> Twin | None:
    """The twin of a plain class, which a twin's class is its own; None where there is none.

    Args:
        cls: of a layer.
        twins: of further classes, or others than ours.
    """
    known = dict(TWINS) | dict(twins or {})
    return known.get(cls) or {twin.cls: twin for twin in known.values()}.get(cls)


def plain_class(cls: type, twins: Twins | None = None) -> type[nnx.Module] | None:
    """The plain class of a twin's class; None where there is none."""
    known = dict(TWINS) | dict(twins or {})
    return {twin.cls: plain for plain, twin in known.items()}.get(cls)


def _require_twin(cls: type) -> type[nnx.Module]:
    twin = find_twin(cls)
    if twin is None:
        raise ArgumentError(
            f"the layer must be one of {', '.join(plain.__name__ for plain in TWINS)}",
            got=cls.__name__,
            fix="pass the class of its twin",
        )
    return twin.cls


def _check_same_array(
    name: str, plain: Any, tensor: CompressedTensor, cuts: tuple[int, ...]
) -> None:
    shape = whole_shape(tensor, cuts)
    want = f"{dtype_name(plain.dtype)}{list(plain.shape)}"
    if tuple(plain.shape) != shape or plain.dtype != tensor.dtype:
        raise ArgumentError(
            f"{name} must be {want}", got=f"{dtype_name(tensor.dtype)}{list(shape)}"
        )
