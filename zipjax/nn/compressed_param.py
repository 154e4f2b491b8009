"""`CompressedParam`: the variable that holds a compressed matrix in the place of a parameter."""

import dataclasses
import math
from typing import Any, NoReturn

from flax import nnx

from pallas_kernels import ArgumentError, CompressedTensor
from zipjax.nn.pieces import decode_pieces, whole_shape


@dataclasses.dataclass(frozen=True, eq=False)
class PlainVariable:
    """What a parameter was beside its array; hashable, for it is part of the graph definition.

    Two are equal whatever the order of their metadata, which transformations sort.

    Attributes:
        kind: type of the variable, `nnx.Param` or one of its subclasses.
        metadata: its metadata in their order, which makes another graph to Flax 0.12.8.
    """

    kind: type[nnx.Variable]
    metadata: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, variable: nnx.Variable) -> "PlainVariable":
        """Everything of a variable but its array."""
        return cls(type(variable), tuple(variable.get_metadata().items()))

    def restore(self, array: Any) -> nnx.Variable:
        """The variable as it was, around an array; no hook and no sharding is applied again."""
        return self.kind.from_metadata(array, dict(self.metadata))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlainVariable):
            return NotImplemented
        return self.kind is other.kind and dict(self.metadata) == dict(other.metadata)

    def __hash__(self) -> int:
        return hash((self.kind, frozenset(self.metadata)))


class CompressedParam(nnx.Variable):
    """A matrix at rest, compressed without losing a bit; the variable's value is a pytree.

    It is no `nnx.Param`: `nnx.grad`, `nnx.Optimizer` and every filter by `nnx.Param` pass it by. It
    is a constant, so there is no gradient with respect to it; gradients with respect to the inputs
    of its layer, and to adapters on top, are what they are without compression. A filter that is to
    see it names it: `nnx.state(model, zipjax.nn.CompressedParam)`.

    It is no array either: indexing, arithmetic and `jnp` functions are refused with an error that
    says what to call. Only a layer that knows it can take its place (`zipjax.nn.TWINS`).

    Metadata:
        plain: `PlainVariable`, what `decompress_model` gives back.
        cut_dims: int tuple, axes of the matrix that are cut into pieces for a mesh (`Pieces`).

    `get_value()` is a `CompressedTensor` of one piece; its streams may have leading axes, first
    those of stacked layers or experts, then one for each of `cut_dims`. So `nnx.vmap`, `nnx.scan`
    and `jax.shard_map` slice it as they slice a plain parameter.
    """

    def __init__(
        self,
        value: CompressedTensor,
        *,
        plain: PlainVariable,
        cut_dims: tuple[int, ...] = (),
        **metadata: Any,
    ):
        """Hold a tensor.

        Args:
            value: the streams, with leading axes or without.
            plain: what the parameter was.
            cut_dims: axes that are cut.
            **metadata: more metadata.
        """
        super().__init__(value, plain=plain, cut_dims=tuple(cut_dims), **metadata)
        # In the order in which `nnx.jit` gives metadata back: another one is another program.
        self.set_metadata(dict(sorted(self.get_metadata().items())))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array that this stands for, stacks and cuts included."""
        return whole_shape(self.get_raw_value(), self.get_metadata("cut_dims"))

    @property
    def ndim(self) -> int:
        """Number of axes of that array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of that array."""
        return math.prod(self.shape)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of that array."""
        return self.size * self.get_raw_value().dtype.itemsize

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(f"{name}: {_refusal(self)}") from error

    def get_value(self, *, index: Any = None) -> CompressedTensor:
        """The compressed tensor; an index is refused."""
        if index is not None:
            _refuse(self)
        return super().get_value()

    def set_value(self, value: CompressedTensor, *, index: Any = None) -> None:
        """Replace the compressed tensor by another; an index or an array is refused."""
        if index is not None or not isinstance(value, CompressedTensor):
            _refuse(self)
        super().set_value(value)

    def __jax_array__(self) -> NoReturn:
        _refuse(self)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an array of compressed bytes would be silently wrong."""
        _refuse(self)


def decode_param(param: nnx.Variable) -> Any:
    """The array of a parameter, compressed or not: the same bits, [*stack, *matrix].

    Args:
        param: a `CompressedParam`; any other variable gives its own array.
    """
    if isinstance(param, CompressedParam):
        return decode_pieces(param.get_value(), param.get_metadata("cut_dims"))
    return param[...]


def _refuse(variable: CompressedParam, *_: object) -> NoReturn:
    raise _refusal(variable)


def _refusal(variable: CompressedParam) -> ArgumentError:
    return ArgumentError(
        "a compressed parameter is no array",
        got=variable.get_raw_value(),
        fix="call zipjax.nn.decode_param(p) for its array, or compress_model with a rule that "
        "leaves this layer",
    )


# Everything by which a plain parameter is used as an array; `==` stays, for graphs compare.
_OPERATORS = (
    "add sub mul matmul truediv floordiv mod pow lshift rshift and xor or "
    "radd rsub rmul rmatmul rtruediv rfloordiv rmod rpow rlshift rrshift rand rxor ror "
    "lt le gt ge neg pos abs invert complex int float index round trunc floor ceil "
    "len iter contains getitem setitem delitem call bool"
)
for _name in _OPERATORS.split():
    setattr(CompressedParam, f"__{_name}__", _refuse)
