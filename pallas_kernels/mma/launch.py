"""From tensors of any size to the fused kernel and back: padding, choice of instruction, sums.

Both fused ops end here. What cannot be done is an `UnsupportedError` that says why.
"""

import math
from typing import Any

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
from pallas_kernels.versions import MOSAIC_KNOWS_AMPERE


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
    check_mma(weight, fix=f"relayout(weight, {wanted!r})")
    if weight.layout != wanted:
        raise UnsupportedError(
            f"the fused kernel sums along the depth of {wanted}", got=weight.layout
        )
    if np.dtype(x_dtype) != weight.dtype:
        raise UnsupportedError(
            "the fused kernel takes x of the weights' dtype",
            got=f"{dtype_name(np.dtype(x_dtype))} x for {dtype_name(weight.dtype)} weights",
        )


def check_mma(tensor: CompressedTensor, fix: str = "") -> None:
    """Refuse tensors that the kernels cannot read.

    Raises:
        UnsupportedError: with the reason, and `fix`.
    """
    if tensor.layout not in MMA_LAYOUTS:
        raise UnsupportedError(
            "the kernels take weights in a layout for tensor cores", got=tensor, fix=fix
        )
    if not tensor.size:
        raise UnsupportedError("the kernels take no empty matrix", got=tensor)


def require_fused_gpu(*, needs_tma: bool = False) -> Gpu:
    """The GPU at hand, or the assumed one.

    Args:
        needs_tma: whether the kernel moves data by TMA, which Hopper was the first to have.

    Raises:
        UnsupportedError: it is not one that the kernel is for.
    """
    gpu = current_gpu()
    major = gpu.compute_capability[0] if gpu else 0
    if gpu is None or major not in (8, 9, 10) or (needs_tma and major == 8):
        kinds = "Hopper and Blackwell" if needs_tma else "Ampere, Ada, Hopper and Blackwell"
        name = gpu.name if gpu else "no known GPU"
        raise UnsupportedError(f"the kernel runs on {kinds}", got=name)
    if major == 8 and not MOSAIC_KNOWS_AMPERE:
        raise UnsupportedError("kernels for Ampere and Ada need jax 0.11", got=gpu.name)
    return gpu


def block_rows(gpu: Gpu, x_rows: int, dtype: np.dtype) -> int:
    """Rows of x in a block: `x_rows`, but where stored words wait in registers too, no more than
    those have room for (with 64 rows, or with float16 and 16, ptxas spills)."""
    if gpu.compute_capability[0] > 8:
        return x_rows
    return min(x_rows, 32 if float_spec(dtype).mantissa_bits == 7 else 8)


def multiply_blocks(
    weight: CompressedTensor,
    x: jax.Array,
    block_matrix: jax.Array,
    gpu: Gpu,
    *,
    split_k: int,
    num_stages: int,
    interpret: Any = False,
) -> jax.Array:
    """y[c] = x[c] @ W[block_matrix[c]], where W are the stored matrices, or their transposes.

    Args:
        weight: matrices [.., N, K] in layout "mma16x256", or [.., K, N] in "mma256x16".
        x: [C, m, K] of the weights' dtype; m is 8, 16, 32 or 64.
        block_matrix: int32 [C].
        gpu: where it runs.
        split_k: shares of the depth, computed by different blocks; divides its steps of 256.
        num_stages: steps in shared memory at once.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        y: float32 [C, m, N]; the shares of the depth are added in their order.
    """
    # Imported late: Mosaic takes half a second, and only kernels need it.
    from pallas_kernels.mma.kernel_matmul import decode_matmul_transposed
    from pallas_kernels.mma.kernel_matmul_direct import decode_matmul_transposed_direct
    from pallas_kernels.mma.products import Mma, Wgmma

    rows, depth = weight.shape[-2:] if weight.layout == LAYOUT_MMA else weight.shape[:-3:-1]
    groups, steps = matrix_grid(rows, depth)
    x = jnp.pad(x, ((0, 0), (0, 0), (0, steps * MMA_TILE_DEPTH - depth)))
    shared = {
        "spec": float_spec(weight.dtype),
        "rows": groups * MMA_GROUP_ROWS,
        "num_splits": split_k,
        "interpret": interpret,
    }
    major, columns = gpu.compute_capability[0], x.shape[1]
    product = Wgmma(columns) if major == 9 else Mma(columns)
    operands = (weight.streams, product.operand(x), block_matrix.astype(jnp.int32))
    if major == 8:
        y_t = decode_matmul_transposed_direct(*operands, columns=columns, **shared)
    else:
        y_t = decode_matmul_transposed(*operands, product=product, num_stages=num_stages, **shared)
    total = y_t[0]
    for share in range(1, split_k):
        total = total + y_t[share]
    return total[:, :rows].swapaxes(1, 2)


def decode_tensor(tensor: CompressedTensor, gpu: Gpu, *, interpret: Any = False) -> jax.Array:
    """The whole tensor, in an mma layout, by the kernel.

    Args:
        tensor: matrices [.., N, K] or [.., K, N].
        gpu: where it runs.
        interpret: Pallas' interpret parameters, or False.
    """
    from pallas_kernels.mma.kernel_decode import decode_matrices

    rows_first = tensor.layout == LAYOUT_MMA
    rows, depth = tensor.shape[-2:] if rows_first else tensor.shape[:-3:-1]
    groups, steps = matrix_grid(rows, depth)
    num_matrices = math.prod(tensor.shape[:-2])
    # As few blocks as fill the GPU: each has its pipeline to fill first.
    wanted = -(-gpu.num_sms // (num_matrices * groups))
    splits = next(n for n in range(min(wanted, steps), steps + 1) if steps % n == 0)
    matrices = decode_matrices(
        tensor.streams,
        spec=float_spec(tensor.dtype),
        layout=tensor.layout,
        num_matrices=num_matrices,
        groups=groups,
        steps=steps,
        num_splits=splits,
        interpret=interpret,
    )
    return matrices[:, : tensor.shape[-2], : tensor.shape[-1]].reshape(tensor.shape)


def encode_words_of(
    x: jax.Array, exponents: jax.Array, layout: str, *, interpret: Any = False
) -> jax.Array:
    """The main stream of matrices, by the kernel.

    Args:
        x: 16-bit floats [..., N, K] or [..., K, N].
        exponents: uint8 [17], the first of them the window's base.
        layout: its name.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        words: uint32 [T, W, 32, 4].
    """
    from pallas_kernels.mma.kernel_encode import encode_matrices

    matrices = x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    multiples = (MMA_GROUP_ROWS, MMA_TILE_DEPTH)
    multiples = multiples if layout == LAYOUT_MMA else multiples[::-1]
    edges = [(0, -size % of) for size, of in zip(matrices.shape[1:], multiples, strict=True)]
    if any(edge for _, edge in edges):
        matrices = jnp.pad(matrices, [(0, 0), *edges])
    spec = float_spec(x.dtype)
    return encode_matrices(matrices, exponents, spec=spec, layout=layout, interpret=interpret)
