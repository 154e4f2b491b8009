"""From tensors of any size to the fused kernel and back: padding, choice of instruction, sums.

Both fused ops end here. What cannot be done is an `UnsupportedError` that says why.
"""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    LAYOUT_MMA,
    LAYOUT_MMA_T,
    MMA_GROUP_ROWS,
    MMA_LAYOUTS,
    MMA_TILE_DEPTH,
    dtype_name,
    float_spec,
    matrix_grid,
)
from pallas_kernels.hardware import Gpu, current_gpu
from pallas_kernels.tensor import CompressedTensor

if TYPE_CHECKING:
    from pallas_kernels.mma.products import Product


def check_fused(weight: CompressedTensor, x_dtype: Any, *, contracts_rows: bool) -> None:
    """Refuse what the kernel is not for.

    Args:
        weight: compressed matrices.
        x_dtype: dtype of the other factor.
        contracts_rows: whether the sum runs along the last stored axis.

    Raises:
        UnsupportedError: with the reason.
    """
    wanted = LAYOUT_MMA if contracts_rows else LAYOUT_MMA_T
    if weight.layout not in MMA_LAYOUTS:
        raise UnsupportedError(
            "the fused kernel takes weights in a layout for tensor cores",
            got=weight,
            fix=f"relayout(weight, {wanted!r})",
        )
    if weight.layout != wanted:
        raise UnsupportedError(
            f"the fused kernel sums along the depth of {wanted}", got=weight.layout
        )
    if np.dtype(x_dtype) != weight.dtype:
        raise UnsupportedError(
            "the fused kernel takes x of the weights' dtype",
            got=f"{dtype_name(np.dtype(x_dtype))} x for {dtype_name(weight.dtype)} weights",
        )
    if not weight.size:
        raise UnsupportedError("the fused kernel takes no empty matrix", got=weight)


def require_fused_gpu() -> Gpu:
    """The GPU at hand, or the assumed one.

    Raises:
        UnsupportedError: it is not one that the kernel is for.
    """
    gpu = current_gpu()
    if gpu is None or gpu.compute_capability[0] not in (9, 10):
        name = gpu.name if gpu else "no known GPU"
        raise UnsupportedError("the fused kernel runs on Hopper and Blackwell", got=name)
    return gpu


def product_of(gpu: Gpu, columns: int) -> "Product":
    """The tensor-core instruction of a GPU, for blocks of so many rows of x."""
    from pallas_kernels.mma.products import Mma, Wgmma  # half a second, and only kernels need it

    return Wgmma(columns) if gpu.compute_capability[0] == 9 else Mma(columns)


def multiply_blocks(
    weight: CompressedTensor,
    x: jax.Array,
    block_matrix: jax.Array,
    product: "Product",
    *,
    split_k: int,
    num_stages: int,
    interpret: Any = False,
) -> jax.Array:
    """y[c] = x[c] @ W[block_matrix[c]], where W are the stored matrices, or their transposes.

    Args:
        weight: matrices [.., N, K] in layout "mma16x256", or [.., K, N] in "mma256x16".
        x: [C, m, K] of the weights' dtype, m = `product.columns`.
        block_matrix: int32 [C].
        product: of this GPU.
        split_k: shares of the depth, computed by different blocks; divides its steps of 256.
        num_stages: steps in shared memory at once.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        y: float32 [C, m, N]; the shares of the depth are added in their order.
    """
    from pallas_kernels.mma.kernel import decode_matmul_transposed

    rows, depth = weight.shape[-2:] if weight.layout == LAYOUT_MMA else weight.shape[:-3:-1]
    groups, steps = matrix_grid(rows, depth)
    x = jnp.pad(x, ((0, 0), (0, 0), (0, steps * MMA_TILE_DEPTH - depth)))
    y_t = decode_matmul_transposed(
        weight.streams,
        product.operand(x),
        block_matrix.astype(jnp.int32),
        spec=float_spec(weight.dtype),
        product=product,
        rows=groups * MMA_GROUP_ROWS,
        num_splits=split_k,
        num_stages=num_stages,
        interpret=interpret,
    )
    total = y_t[0]
    for share in range(1, split_k):
        total = total + y_t[share]
    return total[:, :rows].swapaxes(1, 2)
