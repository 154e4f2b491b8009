"""The `mosaic_gpu` backend of `decode`: matrices in the layouts of the fused kernels."""

from typing import Any

import jax

from pallas_kernels.mma import check_mma, decode_tensor, require_fused_gpu
from pallas_kernels.tensor import CompressedTensor


def decode(tensor: CompressedTensor, *, interpret: Any = False) -> jax.Array:
    """See `api.decode`.

    Raises:
        UnsupportedError: another GPU, or a layout that is not for tensor cores: XLA decodes
            `rows16` in one elementwise pass.
    """
    check_mma(tensor)
    return decode_tensor(tensor, require_fused_gpu(needs_tma=True), interpret=interpret)
