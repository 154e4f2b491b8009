"""From tensors of any size to the fused kernel and back: padding, choice of instruction, sums.

Both fused ops end here. What cannot be done is an `UnsupportedError` that says why.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    LAYOUT_MMA,
    LAYOUT_MMA_T,
    MMA_GROUP_ROWS,
    MMA_GROUP_TILES,
    MMA_LAYOUTS,
    MMA_TILE_DEPTH,
    dtype_name,
    float_spec,
    matrix_grid,
    words_per_group,
)
from pallas_kernels.hardware import Gpu
from pallas_kernels.mma.decode_tile import COMPUTE_WARPGROUPS, PLANE_NBYTES
from pallas_kernels.tensor import CompressedTensor

if TYPE_CHECKING:
    from pallas_kernels.mma.products import Product

BLOCK_COLUMNS = (8, 16, 32, 64)
MAX_STAGES = 4
_RESERVED_NBYTES = 2048  # barriers and alignment, on the safe side
_FILL_STEPS = 2  # what starting a block costs, in steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusedConfig:
    """How the kernel is cut.

    Attributes:
        columns: rows of x in a block, one of `BLOCK_COLUMNS`.
        num_splits: shares of the depth, computed by different blocks; divides the steps of 256.
        num_stages: steps of stored words and x in shared memory at once.
    """

    columns: int
    num_splits: int
    num_stages: int


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


def product_of(gpu: Gpu | None, columns: int) -> "Product":
    """The tensor-core instruction of a GPU.

    Raises:
        UnsupportedError: none of Hopper, Blackwell.
    """
    major = gpu.compute_capability[0] if gpu else 0
    if major not in (9, 10):
        name = gpu.name if gpu else "no known GPU"
        raise UnsupportedError("the fused kernel runs on Hopper and Blackwell", got=name)
    from pallas_kernels.mma.products import Mma, Wgmma  # half a second, and only kernels need it

    return Wgmma(columns) if major == 9 else Mma(columns)


def choose_config(
    gpu: Gpu, dtype: np.dtype, shape: tuple[int, int], num_columns: int, num_blocks: int = 1
) -> FusedConfig:
    """The kernel's cut by formula: least waves of blocks, then as many stages as fit.

    Args:
        gpu: where it runs.
        dtype: of the weights.
        shape: rows (outputs) and depth of a matrix.
        num_columns: rows of x.
        num_blocks: blocks of columns, where they are made already.
    """
    columns = next((c for c in BLOCK_COLUMNS if c >= num_columns), BLOCK_COLUMNS[-1])
    blocks = max(num_blocks, -(-num_columns // columns))
    groups, steps = matrix_grid(*shape)

    def time_of(splits: int) -> float:
        waves = math.ceil(blocks * groups * splits / gpu.num_sms)
        return waves * (steps / splits + _FILL_STEPS)

    splits = min((s for s in range(1, steps + 1) if steps % s == 0), key=time_of)
    stage = stage_nbytes(dtype, columns)
    room = gpu.smem_per_block_nbytes - _RESERVED_NBYTES - COMPUTE_WARPGROUPS * PLANE_NBYTES
    stages = min(MAX_STAGES, room // stage, max(2, steps // splits))
    return FusedConfig(columns=columns, num_splits=splits, num_stages=stages)


def stage_nbytes(dtype: np.dtype, columns: int) -> int:
    """Shared memory of one step: stored words of eight tiles, and x."""
    words = MMA_GROUP_TILES * words_per_group(float_spec(dtype)) * 512
    return words + columns * MMA_TILE_DEPTH * 2


def multiply_blocks(
    weight: CompressedTensor,
    x: jax.Array,
    block_matrix: jax.Array,
    product: "Product",
    config: FusedConfig,
    *,
    interpret: Any = False,
) -> jax.Array:
    """y[c] = x[c] @ W[block_matrix[c]], where W are the stored matrices, or their transposes.

    Args:
        weight: matrices [.., N, K] in layout "mma16x256", or [.., K, N] in "mma256x16".
        x: [C, m, K] of the weights' dtype, m = `config.columns`.
        block_matrix: int32 [C].
        product: of this GPU.
        config: the cut.
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
        num_splits=config.num_splits,
        num_stages=config.num_stages,
        interpret=interpret,
    )
    total = y_t[0]
    for share in range(1, config.num_splits):
        total = total + y_t[share]
    return total[:, :rows].swapaxes(1, 2)
