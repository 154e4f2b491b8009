"""How roomy the exponent code is for what a training step sends; measured on real tensors.

Room for exponents outside the windows is static: too little never loses a bit, but everything
then travels raw. docs/design/0005-training-run.md has the figures and the command.
"""

from typing import NamedTuple

from pallas_kernels import ExponentConfig
from parallel import Codec

# bfloat16 tokens and their gradients. Runs are short enough to lie within one row: rows differ in
# scale, and the zero rows behind the end of a queue then cost nothing.
ACTIVATIONS = ExponentConfig(code_bits=3, num_slots=8, elems_per_far=160, max_run_elems=64)

# float32 gradients of parameters: products of activations and gradients, with far heavier tails. A
# window of 16 exponents costs the bit that a window of 8 would need in slots and far list.
GRADIENTS = ExponentConfig(code_bits=4, num_slots=4, elems_per_far=160, max_run_elems=128)


class WireCodes(NamedTuple):
    """The codec of either kind of message."""

    activations: Codec
    gradients: Codec


def wire_codes(codec: str | None) -> WireCodes:
    """Return the two codecs that the `codec` of a `TrainConfig` stands for."""
    return WireCodes(None, None) if codec is None else WireCodes(ACTIVATIONS, GRADIENTS)
