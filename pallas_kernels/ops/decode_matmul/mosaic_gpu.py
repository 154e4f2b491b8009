"""The `mosaic_gpu` backend of `decode_matmul`: x in blocks of up to 64 rows, one kernel."""

from typing import Any

import jax
import jax.numpy as jnp

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.hardware import current_gpu
from pallas_kernels.mma import (
    BLOCK_COLUMNS,
    FusedConfig,
    check_fused,
    choose_config,
    multiply_blocks,
    product_of,
)
from pallas_kernels.ops.decode_matmul.call import Call
from pallas_kernels.ops.decode_matmul.reference import epilogue
from pallas_kernels.tensor import CompressedTensor

# Each block of 64 rows decodes the weights again, 1.4 bytes of device memory a weight. Decoding
# once and multiplying moves 1.4 + 2 + 2, so from the fourth block on that is less.
MAX_ROWS = 3 * BLOCK_COLUMNS[-1]


def decode_matmul(
    call: Call,
    x: jax.Array,
    weight: CompressedTensor,
    bias: jax.Array | None,
    *,
    config: FusedConfig | None = None,
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
    if not 1 <= rows.shape[0] <= MAX_ROWS:
        raise UnsupportedError(
            f"the fused kernel is for 1 to {MAX_ROWS} rows of x",
            got=rows.shape[0],
            fix="decode once and multiply, as the backend xla does",
        )
    num_out, depth = weight.shape if call.contracts_rows else weight.shape[::-1]
    gpu = current_gpu()
    product = product_of(gpu, BLOCK_COLUMNS[0])
    assert gpu is not None
    config = config or choose_config(gpu, weight.dtype, (num_out, depth), rows.shape[0])
    product = product_of(gpu, config.columns)
    blocks = -(-rows.shape[0] // config.columns)
    padded = jnp.pad(rows, ((0, blocks * config.columns - rows.shape[0]), (0, 0)))
    y = multiply_blocks(
        weight,
        padded.reshape(blocks, config.columns, depth),
        jnp.zeros(blocks, jnp.int32),
        product,
        config,
        interpret=interpret,
    )
    y = y.reshape(-1, num_out)[: rows.shape[0]].reshape(*x.shape[:-1], num_out)
    return epilogue(y, bias, call)
