"""The twin of the bank of SwiGLU experts: every expert compressed by itself."""

from jaxtyping import Array, Float

from zipjax.nn.decoded import call_decoded
from zipjax.nn.experts import SwigluExperts


class CompressedSwigluExperts(SwigluExperts):
    """`SwigluExperts` whose matrices are `CompressedParam`s, one piece an expert."""

    def __call__(self, rows: Float[Array, "E N W"]) -> Float[Array, "E N W"]:
        """Apply expert e to `rows[e]`: the bits of `SwigluExperts`."""
        return call_decoded(SwigluExperts.__call__, self, rows)
