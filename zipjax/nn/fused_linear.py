"""A linear layer by the fused product of decode and matmul, where its matrix lies for it."""

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from pallas_kernels import LAYOUT_MMA_T, decode_matmul
from zipjax.nn.compressed_param import CompressedParam


def can_multiply_fused(layer: nnx.Linear, inputs: Float[Array, "*B K"]) -> bool:
    """Whether the layer's matrix lies for the kernel, and the layer computes in its dtype."""
    tensor = _tensor(layer)
    return tensor.layout == LAYOUT_MMA_T and _dtype(layer, inputs, tensor) == tensor.dtype


def multiply_fused(layer: nnx.Linear, inputs: Float[Array, "*B K"]) -> Float[Array, "*B N"]:
    """inputs @ kernel + bias: float32 sums and bias, rounded once to the layer's dtype."""
    tensor = _tensor(layer)
    bias = None if layer.bias is None else layer.bias[...]
    return decode_matmul(inputs.astype(tensor.dtype), tensor, bias=bias)


def _tensor(layer: nnx.Linear) -> Any:
    param: Any = layer.kernel
    assert isinstance(param, CompressedParam)
    return param.get_value()


def _dtype(layer: nnx.Linear, inputs: Array, tensor: Any) -> Any:
    """What the plain layer computes in: its `dtype`, else what its operands promote to."""
    if layer.dtype is not None:
        return jnp.dtype(layer.dtype)
    parts = [inputs.dtype, tensor.dtype]
    return jnp.result_type(*parts, *([] if layer.bias is None else [layer.bias.dtype]))
