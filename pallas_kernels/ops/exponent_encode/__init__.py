"""Encode a tensor for the wire."""

from pallas_kernels.ops.exponent_encode.api import exponent_encode as exponent_encode
