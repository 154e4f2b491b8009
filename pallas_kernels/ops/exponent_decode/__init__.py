"""Decode a tensor that came over the wire."""

from pallas_kernels.ops.exponent_decode.api import exponent_decode as exponent_decode
