"""The `mosaic_gpu` backend of `grouped_decode_matmul`: rows in blocks that each have one expert.

Every group is padded to whole blocks of rows, so that a block of the kernel multiplies by one
matrix; T rows of E groups are in at most ceil(T / m) + E blocks. The map from blocks to experts is
data, so it costs no compilation.
"""

from typing import Any

import jax
import jax.numpy as jnp

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.mma import (
    block_rows,
    check_fused,
    multiply_blocks,
    require_fused_gpu,
)
from pallas_kernels.ops.grouped_decode_matmul.call import Call
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tuning import (
    DecodeMatmulConfig,
    MatmulShape,
    decode_first_rows,
    decode_matmul_config,
)


def grouped_matmul(
    call: Call,
    x: jax.Array,
    weights: CompressedTensor | jax.Array,
    group_sizes: jax.Array,
    *,
    config: DecodeMatmulConfig | None = None,
    interpret: Any = False,
) -> jax.Array:
    """See `api.grouped_decode_matmul`; arguments are checked there.

    Raises:
        UnsupportedError: another GPU, layout or dtype, or more rows than the kernel pays for.
    """
    if not isinstance(weights, CompressedTensor):
        raise UnsupportedError("the fused kernel takes compressed experts", got=type(weights))
    check_fused(weights, x.dtype, contracts_rows=call.contracts_rows)
    num_rows, depth = x.shape
    num_experts = weights.shape[0]
    num_out = weights.shape[1] if call.contracts_rows else weights.shape[2]
    gpu = require_fused_gpu()
    if not num_rows:
        raise UnsupportedError("the fused kernel is for at least one row of x", got=x.shape)
    mean_rows = -(-num_rows // num_experts)
    shape = MatmulShape(rows=mean_rows, depth=depth, num_out=num_out, dtype=weights.dtype)
    if mean_rows >= decode_first_rows(gpu, shape):
        raise UnsupportedError(
            f"from {decode_first_rows(gpu, shape)} rows an expert on it is faster to decode once",
            got=mean_rows,
        )
    config = config or decode_matmul_config(gpu, shape)
    height = block_rows(gpu, shape.x_rows, weights.dtype)
    block, row, expert = _blocks(group_sizes, num_rows, height)
    blocked = jnp.zeros((expert.size, height, depth), x.dtype)
    blocked = blocked.at[block, row].set(x, mode="drop")
    y = multiply_blocks(
        weights,
        blocked,
        expert,
        gpu,
        split_k=config.split_k,
        num_stages=config.num_stages,
        interpret=interpret,
    )
    return y.at[block, row].get(mode="fill", fill_value=0).astype(call.out_dtype)


def _blocks(
    group_sizes: jax.Array, num_rows: int, columns: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Block and row in it of each row of x (a block that is not there for rows of no group), and
    the expert of each block (the last one for blocks without rows)."""
    num_experts = group_sizes.shape[0]
    ends = jnp.minimum(jnp.cumsum(group_sizes.astype(jnp.int32)), num_rows)
    starts = jnp.concatenate([jnp.zeros(1, jnp.int32), ends[:-1]])
    block_ends = jnp.cumsum(-(-(ends - starts) // columns))
    block_starts = jnp.concatenate([jnp.zeros(1, jnp.int32), block_ends[:-1]])

    number = jnp.arange(num_rows, dtype=jnp.int32)
    group = jnp.searchsorted(ends, number, side="right")
    owned = jnp.minimum(group, num_experts - 1)
    within = number - starts[owned]
    num_blocks = -(-num_rows // columns) + min(num_experts, num_rows)
    block = jnp.where(group < num_experts, block_starts[owned] + within // columns, num_blocks)
    expert = jnp.searchsorted(block_ends, jnp.arange(num_blocks, dtype=jnp.int32), side="right")
    return block, within % columns, jnp.minimum(expert, num_experts - 1)
