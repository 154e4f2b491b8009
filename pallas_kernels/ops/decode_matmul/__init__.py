"""Room of `decode_matmul`: x @ decode(weight) without the decoded weight at rest."""

from pallas_kernels.ops.decode_matmul.api import decode_matmul as decode_matmul
