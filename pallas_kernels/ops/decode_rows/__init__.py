"""Room of `decode_rows`: some rows of a compressed matrix."""

from pallas_kernels.ops.decode_rows.api import decode_rows as decode_rows
