"""`exponent_encode`: a tensor to what travels."""

from pallas_kernels.ops.exponent_encode.api import exponent_encode as exponent_encode
