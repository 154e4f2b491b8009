"""The `mosaic_gpu` backend of `decode_matmul`: x in blocks of up to 64 rows, one kernel."""

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
from pallas_kernels.ops.decode_matmul.call import Call
from pallas_kernels.ops.decode_matmul.reference import epilogue
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tuning import (
    DecodeMatmulConfig,
    MatmulShape,
    decode_first_rows,
    decode_matmul_config,
)


def decode_matmul(
    call: Call,
    x: jax.Array,
    weight: CompressedTensor,
    bias: jax.Array | None,
    *,
    config: DecodeMatmulConfig | None = None,
    interpret: Any = False,
) -> jax.Array:
    """See `api.decode_matmul`; arguments are checked there.

    Args:
        call: the static side.
        x: [..., K].
        weight: [K, N] or [N, K].
        bias: [N] or None.
        config: the kernel's cut; by formula if None.
        interpret: Pallas' interpret parameters, or False.

    Raises:
        UnsupportedError: another GPU, layout or dtype, or more rows than the kernel pays for.
    """
    check_fused(weight, x.dtype, contracts_rows=call.contracts_rows)
    rows = x.reshape(-1, x.shape[-1])
    num_out, depth = weight.shape if call.contracts_rows else weight.shape[::-1]
    gpu = require_fused_gpu()
    if not rows.shape[0]:
        raise UnsupportedError("the fused kernel is for at least one row of x", got=x.shape)
    shape = MatmulShape(rows=rows.shape[0], depth=depth, num_out=num_out, dtype=weight.dtype)
    if rows.shape[0] >= decode_first_rows(gpu, shape):
        raise UnsupportedError(
            f"from {decode_first_rows(gpu, shape)} rows of x on it is faster to decode once",
            got=rows.shape[0],
        )
    config = config or decode_matmul_config(gpu, shape)
    height = block_rows(gpu, shape.x_rows, weight.dtype)
    blocks = -(-rows.shape[0] // height)
    padded = jnp.pad(rows, ((0, blocks * height - rows.shape[0]), (0, 0)))
    y = multiply_blocks(
        weight,
        padded.reshape(blocks, height, depth),
        jnp.zeros(blocks, jnp.int32),
        gpu,
        split_k=config.split_k,
        num_stages=config.num_stages,
        interpret=interpret,
    )
    y = y.reshape(-1, num_out)[: rows.shape[0]].reshape(*x.shape[:-1], num_out)
    return epilogue(y, bias, call)
