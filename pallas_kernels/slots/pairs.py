"""Arithmetic on pair words: two halves of 16 bits, each with sign, exponent and upper mantissa.

All of a float that the code looks at is in its upper 16 bits, for float32 too, since the base is
added to the exponent. Halves must not carry into each other; every sum here has its reason why not
beside it.
"""

from typing import NamedTuple

from pallas_kernels.format.slot_layout import SlotLayout
from pallas_kernels.lanes import Lanes, Word, logic_table

AND_OR = logic_table(lambda a, b, c: (a & b) | c)
_AND_XOR = logic_table(lambda a, b, c: (a & b) ^ c)
_NOT_AND_XOR = logic_table(lambda a, b, c: (~a & b) ^ c)
_NOT_BOTH = logic_table(lambda a, b, c: ~(a & c) & b)
_WITHOUT = logic_table(lambda a, b, c: a & ~c)
_OR = logic_table(lambda a, b, c: a | b)
_XOR = logic_table(lambda a, b, c: a ^ c)
_SIGN = 0x8000


def both(half: int) -> int:
    """A constant of 16 bits in both halves."""
    return half * 0x10001


class Place(NamedTuple):
    """The base of a run, where it is added: in both halves of a pair word.

    Attributes:
        key: the base modulo 2^E, in the place of the exponent.
        sign: the next bit of the base, in the place of the sign; None where the exponent has 8.
    """

    key: Word
    sign: Word | None


class Pairs:
    """Operations of one layout on pair words.

    Attributes:
        mantissa: mantissa bits in a half, M: where the exponent starts.
    """

    def __init__(self, lanes: Lanes, layout: SlotLayout):
        """`lanes` does it."""
        self._lanes = lanes
        self._exponent = layout.exponent_bits
        self._swaps = layout.code_bits == 4
        self.mantissa = 15 - layout.exponent_bits
        self._field = both(_SIGN - (1 << self.mantissa))

    def place(self, base: Word) -> Place:
        """The base, 0 to 255, as it is added."""
        lanes, unit = self._lanes, both(1 << self.mantissa)
        if self._exponent == 8:
            return Place(lanes.mul(base, lanes.const(unit)), None)
        key = lanes.and_(base, lanes.const((1 << self._exponent) - 1))
        sign = lanes.and_(lanes.shr(base, self._exponent), lanes.const(1))
        sign = lanes.mul(sign, lanes.const(both(_SIGN)))
        return Place(lanes.mul(key, lanes.const(unit)), sign)

    def moved(self, word: Word, right: int) -> Word:
        """Shift right, or left where negative; bits that cross the halves are the caller's."""
        if right == 0:
            return word
        return self._lanes.shr(word, right) if right > 0 else self._lanes.shl(word, -right)

    def field(self, word: Word, right: int, mask: int, others: Word | None = None) -> Word:
        """Bits of both halves: (word moved by `right`) & mask, joined to `others`."""
        word = self.moved(word, right)
        if others is None:
            return self._lanes.and_(word, self._lanes.const(both(mask)))
        return self._lanes.masked(word, both(mask), others, AND_OR)

    def plus_base(self, relative: Word, signs: Word, place: Place) -> Word:
        """w + P in each half: `relative` is w without its sign, which `signs` has."""
        lanes = self._lanes
        total = lanes.add(relative, place.key)  # at most 0x7FFF + 0x7F80
        total = lanes.masked(signs, both(_SIGN), total, _AND_XOR)
        return total if place.sign is None else self._xor(total, place.sign)

    def minus_base(self, word: Word, place: Place) -> Word:
        """u - P in each half."""
        lanes = self._lanes
        sign = both(_SIGN)
        # With a one on top nothing is borrowed from the other half; the top is then the opposite
        # of what is borrowed from it.
        total = lanes.sub(self._or(word, sign), place.key)
        total = lanes.masked(word, sign, total, _NOT_AND_XOR)
        return total if place.sign is None else self._xor(total, place.sign)

    def exchange_zero(self, word: Word, place: Place) -> Word:
        """See `format.slot_words.exchange_zero`."""
        if not self._swaps:
            return word
        lanes = self._lanes
        field = lanes.const(self._field)
        low = lanes.and_(word, lanes.const(both(_SIGN - 1)))
        # Both sums are at most 0x7FFF + 0x7F80, and reach 0x8000 unless the exponent is 0.
        nonzero = lanes.add(low, field)
        other = lanes.add(self._xor(low, place.key), field)
        neither = lanes.masked(nonzero, both(_SIGN), other, _NOT_BOTH)
        swapped = lanes.sub(neither, lanes.shr(neither, self._exponent))  # 0x8000 to the field
        return lanes.logic(place.key, swapped, word, _AND_XOR)

    def without(self, word: Word, other: Word) -> Word:
        """word & ~other."""
        return self._lanes.masked(word, 0, other, _WITHOUT)

    def _or(self, a: Word, mask: int) -> Word:
        return self._lanes.masked(a, mask, a, _OR)

    def _xor(self, a: Word, b: Word) -> Word:
        return self._lanes.masked(a, 0, b, _XOR)
