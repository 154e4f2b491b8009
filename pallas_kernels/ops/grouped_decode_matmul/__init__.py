"""Room of `grouped_decode_matmul`: ragged rows against compressed experts."""

from pallas_kernels.ops.grouped_decode_matmul.api import (
    grouped_decode_matmul as grouped_decode_matmul,
)
