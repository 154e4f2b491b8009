"""Room of `decode`: a `CompressedTensor` becomes the array it was."""

from pallas_kernels.ops.decode.api import decode as decode
