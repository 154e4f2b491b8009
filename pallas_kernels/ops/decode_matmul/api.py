"""`decode_matmul`: a product with a compressed matrix; checks, and the choice of a backend."""

from types import MappingProxyType
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.format import FLOATS, dtype_name
from pallas_kernels.ops.decode_matmul import mosaic_gpu, reference
from pallas_kernels.ops.decode_matmul.call import ACTIVATIONS, HOLD, Call
from pallas_kernels.ops.decode_matmul.differentiation import differentiable
from pallas_kernels.shapes import Array, Float
from pallas_kernels.tensor import CompressedTensor

_BACKENDS = MappingProxyType(
    {"mosaic_gpu": mosaic_gpu.decode_matmul, "xla": reference.decode_matmul}
)
_X_DTYPES = ("bfloat16", "float16", "float32", "float64")


def decode_matmul(
    x: Float[Array, "*batch K"],
    weight: CompressedTensor,
    *,
    bias: Float[Array, " N"] | None = None,
    activation: str | None = None,
    transpose: bool = False,
    preferred_element_type: np.dtype | type | str | None = None,
    hold: Literal["matrix", "block"] = "matrix",
    implementation: Implementation = None,
) -> Float[Array, "*batch N"]:
    """y = activation(x @ decode(weight) + bias), for weights that stay compressed.

    Sums are in float32. Without bias and activation, and with `hold="matrix"`, the backend "xla"
    gives the bits of `jnp.matmul(x, decode(weight))` on the same device, traced or not. With them,
    they are applied to the float32 sums, and y is rounded once.

    What is held besides the streams and y, while this product is computed: with `hold="matrix"`
    the decoded matrix, and on CPU what it is made from, as much again or twice. Decoding waits for
    `x`, so a program of many layers, or a loop, holds one matrix at a time. With `hold="block"`
    2^18 decoded elements of it (or one row, if that is longer) at a time, and a float32 copy of y
    unless `transpose`. The sums are then taken in another order: as exact, but not with the same
    bits. A kernel ("mosaic_gpu") holds neither.

    Differentiable in reverse mode in `x` and `bias`; the gradient holds what the product holds,
    and has the bits of the plain product's unless `transpose` (then XLA on CPU may sum in another
    order). Forward mode is refused by JAX. The weight is a constant: its streams are integers, so
    `jax.grad` in it raises JAX's TypeError ("grad requires real- or complex-valued inputs"), and
    with `allow_int=True`, or in `jax.vjp`, its gradient is JAX's empty float0. To train weights,
    decompress them first and train these; or leave them and train low-rank adapters (LoRA) beside
    them.

    `jax.vmap` is supported, over `x` and over weights whose streams are stacked.

    Args:
        x: bfloat16, float16, float32 or float64 [..., K].
        weight: a compressed float matrix [K, N]; with `transpose` [N, K]. Raw ones are taken too.
        bias: float [N].
        activation: "relu", "silu", "gelu", "gelu_tanh" or None.
        transpose: multiply by the transposed weight; it is not moved for it.
        preferred_element_type: dtype of y; that of `x` by default.
        hold: what may be held decoded, see above.
        implementation: "mosaic_gpu" (Hopper, Blackwell), "xla", names in the order to try, or
            None for the best there is.

    Returns:
        y: [..., N].

    Raises:
        ArgumentError: operands that do not go together, or a weight that is not compressed.
        UnsupportedError: no backend can do it; the reasons are in the message.
    """
    _check_weight(weight)
    x, bias = jnp.asarray(x), None if bias is None else jnp.asarray(bias)
    depth, num_out = weight.shape[::-1] if transpose else weight.shape
    _check_operands(x, bias, depth, num_out)
    _check_one_of("activation", activation, (None, *ACTIVATIONS))
    _check_one_of("hold", hold, HOLD)
    names = implementation
    call = Call(
        transpose=bool(transpose),
        activation=activation,
        out_dtype=_out_dtype(preferred_element_type, x),
        hold=hold,
        implementation=names if names is None or isinstance(names, str) else tuple(names),
    )
    return _product(call, x, weight, bias)


def _forward(
    call: Call, x: jax.Array, weight: CompressedTensor, bias: jax.Array | None
) -> jax.Array:
    return dispatch("decode_matmul", _BACKENDS, call.implementation, call, x, weight, bias)


_product = differentiable(_forward)


def _check_weight(weight: CompressedTensor) -> None:
    if not isinstance(weight, CompressedTensor):
        raise ArgumentError(
            "weight must be a CompressedTensor",
            got=type(weight).__name__,
            fix="compress it with zipjax.compress, or multiply by it with jnp.matmul",
        )
    if weight.ndim != 2:
        raise ArgumentError("weight must be a matrix", got=weight)
    if weight.dtype not in FLOATS and weight.dtype != np.float64:
        raise ArgumentError("weight must be of floats", got=weight)


def _check_operands(x: jax.Array, bias: jax.Array | None, depth: int, num_out: int) -> None:
    if dtype_name(x.dtype) not in _X_DTYPES:
        raise ArgumentError(f"x must be one of {', '.join(_X_DTYPES)}", got=x.dtype)
    if x.ndim < 1 or x.shape[-1] != depth:
        raise ArgumentError(f"the last axis of x must have K = {depth} elements", got=x.shape)
    if bias is not None and (
        bias.shape != (num_out,) or not jnp.issubdtype(bias.dtype, jnp.floating)
    ):
        raise ArgumentError(
            f"bias must have N = {num_out} floats", got=f"{bias.dtype}{list(bias.shape)}"
        )


def _check_one_of(name: str, value: object, known: tuple[str | None, ...]) -> None:
    if value not in known:
        raise ArgumentError(f"{name} must be one of {', '.join(map(repr, known))}", got=repr(value))


def _out_dtype(preferred: np.dtype | type | str | None, x: jax.Array) -> np.dtype:
    dtype = np.dtype(x.dtype if preferred is None else jnp.dtype(preferred))
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ArgumentError("preferred_element_type must be a float", got=dtype)
    return dtype
