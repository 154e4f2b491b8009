"""`grouped_decode_matmul`: a product with a stack of compressed experts; checks and dispatch."""

from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.dispatch import Implementation, dispatch
from pallas_kernels.errors import ArgumentError
from pallas_kernels.format import FLOATS, dtype_name
from pallas_kernels.ops.grouped_decode_matmul import mosaic_gpu, reference
from pallas_kernels.ops.grouped_decode_matmul.call import Call
from pallas_kernels.ops.grouped_decode_matmul.differentiation import differentiable
from pallas_kernels.shapes import Array, Float, Int
from pallas_kernels.tensor import CompressedTensor

_BACKENDS = MappingProxyType(
    {"mosaic_gpu": mosaic_gpu.grouped_matmul, "xla": reference.grouped_matmul}
)
_X_DTYPES = ("bfloat16", "float16", "float32", "float64")


def grouped_decode_matmul(
    x: Float[Array, "T K"],
    weights: CompressedTensor | Float[Array, "E K N"],
    group_sizes: Int[Array, " E"],
    *,
    transpose: bool = False,
    preferred_element_type: np.dtype | type | str | None = None,
    implementation: Implementation = None,
) -> Float[Array, "T N"]:
    """y[t] = x[t] @ decode(weights)[e], where t is one of the rows of group e.

    Rows are sorted by group: the first `group_sizes[0]` belong to expert 0, and so on. Rows beyond
    `sum(group_sizes)` give zeros, and whatever they hold has no effect. Sums are in float32.

    What is held besides the streams and y: one expert's decoded matrix. Experts without rows are
    not decoded. No operand is as large as T x E: never `jax.lax.ragged_dot`, which makes one.

    The bits are those of the products of 128 rows at a time with the decoded matrices; a plain
    array in place of `weights` takes the same products, so a model gives the same bits compressed
    and plain.

    Differentiable in reverse mode in `x`; the weights are constants, see `decode_matmul`.

    Args:
        x: bfloat16, float16, float32 or float64 [T, K].
        weights: a compressed float stack [E, K, N]; with `transpose` [E, N, K]. A plain array of
            that shape is taken too, without a gradient in it (ArgumentError).
        group_sizes: integers [E], none negative.
        transpose: multiply by the transposed matrices; they are not moved for it.
        preferred_element_type: dtype of y; that of `x` by default.
        implementation: "mosaic_gpu" (Hopper, Blackwell), "xla", names in the order to try, or
            None for the best there is.

    Returns:
        y: [T, N].

    Raises:
        ArgumentError: operands that do not go together.
        UnsupportedError: no backend can do it; the reasons are in the message.
    """
    _check_weights(weights)
    if not isinstance(weights, CompressedTensor):
        weights = jnp.asarray(weights)
    x, group_sizes = jnp.asarray(x), jnp.asarray(group_sizes)
    _check_operands(x, weights, group_sizes, transpose)
    dtype = np.dtype(x.dtype if preferred_element_type is None else preferred_element_type)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ArgumentError("preferred_element_type must be a float", got=dtype)
    names = implementation
    call = Call(
        transpose=bool(transpose),
        out_dtype=dtype,
        implementation=names if names is None or isinstance(names, str) else tuple(names),
    )
    return _product(call, x, weights, group_sizes)


def _forward(
    call: Call, x: jax.Array, weights: reference.Weights, group_sizes: jax.Array
) -> jax.Array:
    operands = (call, x, weights, group_sizes)
    return dispatch("grouped_decode_matmul", _BACKENDS, call.implementation, *operands)


_product = differentiable(_forward)


def _check_weights(weights: reference.Weights) -> None:
    if not isinstance(weights, CompressedTensor | jax.Array | np.ndarray):
        raise ArgumentError("weights must be a CompressedTensor", got=type(weights).__name__)
    if weights.ndim != 3:
        raise ArgumentError("weights must be a stack of matrices", got=weights.shape)
    if np.dtype(weights.dtype) not in FLOATS and weights.dtype != np.float64:
        raise ArgumentError("weights must be of floats", got=weights.dtype)


def _check_operands(
    x: jax.Array, weights: reference.Weights, group_sizes: jax.Array, transpose: bool
) -> None:
    depth = weights.shape[2 if transpose else 1]
    if dtype_name(x.dtype) not in _X_DTYPES:
        raise ArgumentError(f"x must be one of {', '.join(_X_DTYPES)}", got=x.dtype)
    if x.ndim != 2 or x.shape[1] != depth:
        raise ArgumentError(f"x must be [T, K] with K = {depth}", got=x.shape)
    if group_sizes.shape != weights.shape[:1] or not jnp.issubdtype(group_sizes.dtype, jnp.integer):
        raise ArgumentError(
            f"group_sizes must be {weights.shape[0]} integers",
            got=f"{group_sizes.dtype}{list(group_sizes.shape)}",
        )
