"""Words of the position-slots format: the exchange that brings zero into a wide window.

Operators only, so that it serves any array library; the oracle has its own plain version.
"""

from typing import TypeVar

from pallas_kernels.format.slot_layout import SlotLayout

T = TypeVar("T")


def exchange_zero(words: T, base: T, layout: SlotLayout) -> T:
    """Exchange the exponents 0 and base where codes have 4 bits; its own inverse.

    Zero (and what is subnormal) then has code 0, and the rarest exponent of the window pays for it.

    Args:
        words: unsigned words of the elements.
        base: the base of each, in the place of the exponent.
        layout: the sizes.
    """
    if layout.code_bits == 3:
        return words
    word = layout.word_dtype.type
    field = word(layout.num_exponents - 1 << layout.mantissa_bits)
    key = base & field
    exponent = words & field
    # Adding the field carries into the sign bit unless the exponent is 0: no compare is needed.
    is_other = ((exponent + field) & ((exponent ^ key) + field)) >> (layout.word_bits - 1)
    return words ^ key & (is_other - word(1))
