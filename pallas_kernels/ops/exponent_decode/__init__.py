"""`exponent_decode`: what travelled to the tensor."""

from pallas_kernels.ops.exponent_decode.api import exponent_decode as exponent_decode
