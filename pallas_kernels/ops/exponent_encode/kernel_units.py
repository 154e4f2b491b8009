"""Device functions that encode a block of groups: unit by unit, then the escapes of each group.

What is here is the same work for every element: subtract the base, pack, and note in shared memory
which rows escape. What becomes of these is in `kernel_escapes`.
"""

from collections.abc import Mapping, Sequence

from pallas_kernels.format.slot_layout import UNIT_ELEMS, SlotLayout
from pallas_kernels.lanes import Lanes, Memory, Word, logic_table
from pallas_kernels.ops.exponent_encode.kernel_escapes import Escapes, list_escapes
from pallas_kernels.slots import (
    AND_OR,
    Pairs,
    Place,
    both,
    for_units,
    load_halves,
    store_halves,
    vector_elems,
)
from pallas_kernels.slots.block import Unit

_LOW_HALVES, _HIGH_HALVES = 0x5410, 0x7632  # of two words
_LOW_BYTES, _HIGH_BYTES = 0x6420, 0x7531  # of the halves of two words
_TOP_BITS = 0xFDB9  # of the halves of two words, each eight times
_BYTES_IN_TURN = (0x5140, 0x7362)  # of one word and the other
_SELECT = logic_table(lambda a, b, c: (a & b) | (~b & c))
_NEAR = logic_table(lambda a, b, c: (a & ~b) | c)


def encode_block(
    lanes: Lanes,
    layout: SlotLayout,
    words: Memory,
    bases: Memory,
    escapes: Escapes,
    out: Mapping[str, Memory],
    block: Word,
) -> None:
    """Encode a block, but for the far list.

    Args:
        lanes: the lanes.
        layout: the sizes.
        words: uint16 or uint32 [num_elems], the bits of the floats.
        bases: uint8 [T, 16, 16].
        escapes: shared memory.
        out: the payload's streams without `side`, and for each group `num_listed`, uint16 [G], and
            `listed`, uint16 [G, 16]: bit i of word j marks place 16 j + i for the far list. The
            marks are written only where there are any.
        block: its number.
    """
    encoder = _UnitEncoder(lanes, layout, words, bases, escapes, out)
    written = [out[name] for name in out if name not in ("slots", "num_listed", "listed")]
    for_units(lanes, layout, block, encoder.encode, [*written, escapes.near, escapes.far])
    lanes.sync_group()
    list_escapes(lanes, layout, escapes, out, block)


class _UnitEncoder:
    """Encodes units of 16 rows; a lane has those of 1 or 4 neighbouring groups."""

    def __init__(
        self,
        lanes: Lanes,
        layout: SlotLayout,
        words: Memory,
        bases: Memory,
        escapes: Escapes,
        out: Mapping[str, Memory],
    ):
        self._lanes, self._layout, self._pairs = lanes, layout, Pairs(lanes, layout)
        self._words, self._bases, self._escapes, self._out = words, bases, escapes, out
        self._elems = vector_elems(layout)

    def encode(self, unit: Unit) -> None:
        """All rows; what is loaded is loaded first, so that the loads overlap."""
        lanes, layout = self._lanes, self._layout
        tops, lows = self._loaded(unit)
        start, stride = unit.bases(self._bases)
        bases = [lanes.load(start, lanes.const(row * stride), 8) for row in range(UNIT_ELEMS)]
        count = len(tops[0])
        code = _Packed(self._pairs, layout.code_bits, count)
        low = _Packed(self._pairs, 3, count)
        near, far = _Flags(lanes), _Flags(lanes)
        for row in range(UNIT_ELEMS):
            place = self._pairs.place(bases[row])
            relative = [self._relative(word, place, unit, row) for word in tops[row]]
            for pair, word in enumerate(relative):
                code.add(pair, row, word, self._pairs.mantissa)
                if layout.exponent_bits == 5:
                    low.add(pair, row, word, 0)
            escaped = [self._escaped(word) for word in relative]
            near.add(row, [flag for flag, _ in escaped])
            far.add(row, [flag for _, flag in escaped])
            self._store_remainder(unit, row, relative, lows[row] if lows else [])
        self._store_packed(unit, "code", code)
        if layout.exponent_bits == 5:
            self._store_packed(unit, "remainder_low", low)
        for masks, flags in ((self._escapes.near, near), (self._escapes.far, far)):
            store_halves(lanes, masks, unit.mask_offset, flags.masks(count), self._elems)

    def _relative(self, word: Word, place: Place, unit: Unit, row: int) -> Word:
        """w of a pair; 0 where it is padding."""
        word = self._pairs.minus_base(self._pairs.exchange_zero(word, place), place)
        return self._kept(word, unit, row)

    def _escaped(self, word: Word) -> tuple[Word, Word]:
        """Whether each half is near, and whether it is far: in bit 15 of the half.

        Each sum reaches bit 15 from one exponent on; none is above 0x7FFF + 0x7FFF.
        """
        lanes, layout, pairs = self._lanes, self._layout, self._pairs
        low = lanes.and_(word, lanes.const(both(0x7FFF)))

        def from_exponent(first: int) -> Word:
            return lanes.add(low, lanes.const(both(0x8000 - (first << pairs.mantissa))))

        outside = from_exponent(layout.window)
        if layout.num_exponents <= 2 * layout.window:  # nothing is further away
            return outside, lanes.const(0)
        above = from_exponent(layout.window + 1)
        below = from_exponent(layout.num_exponents - layout.window + 1)
        near = lanes.logic(outside, above, below, _NEAR)
        return near, pairs.without(above, below)

    def _loaded(self, unit: Unit) -> tuple[list[list[Word]], list[list[Word]]]:
        """Of each row the pair words of the upper halves, and for float32 of the lower ones."""
        lanes = self._lanes
        itemsize = self._layout.word_dtype.itemsize
        start, stride = unit.rows(self._words, UNIT_ELEMS, itemsize)
        offsets = [lanes.const(row * stride) for row in range(UNIT_ELEMS)]
        if self._has_padding:  # what lies beyond the end is read from before it, and not used
            last = lanes.sub(lanes.const(self._layout.num_elems - self._elems), unit.number())
            last = lanes.mul(last, lanes.const(itemsize))
            offsets = [lanes.min(offset, last) for offset in offsets]
        if itemsize == 2:
            return [load_halves(lanes, start, offset, self._elems) for offset in offsets], []
        if self._elems == 1:
            words = [[lanes.load(start, offset, 32)] for offset in offsets]
            return [[lanes.shr(w, 16)] for (w,) in words], words
        rows = [lanes.load_vector(start, offset, 4) for offset in offsets]
        return (
            [[lanes.merge_bytes(a, b, _HIGH_HALVES) for a, b in _twos(row)] for row in rows],
            [[lanes.merge_bytes(a, b, _LOW_HALVES) for a, b in _twos(row)] for row in rows],
        )

    @property
    def _has_padding(self) -> bool:
        return self._layout.num_elems < self._layout.padded_elems

    def _kept(self, word: Word, unit: Unit, row: int) -> Word:
        """The word, or 0 where it is padding: a piece is all data or all padding."""
        if not self._has_padding:
            return word
        lanes, layout = self._lanes, self._layout
        first = layout.num_elems - row * UNIT_ELEMS * layout.run_elems
        return lanes.select_less(unit.number(), lanes.const(first), word, lanes.const(0))

    def _store_remainder(self, unit: Unit, row: int, relative: list[Word], low: list[Word]) -> None:
        """Sign and upper mantissa bits of a row, a byte each, and the lower half of float32."""
        lanes, pairs = self._lanes, self._pairs
        signs = _merged(lanes, relative, _HIGH_BYTES)
        mantissas = [pairs.moved(word, pairs.mantissa - 7) for word in relative]
        value = lanes.masked(signs, 0x80808080, _merged(lanes, mantissas, _LOW_BYTES), _SELECT)
        start, stride = unit.rows(self._out["remainder"], UNIT_ELEMS, 1)
        lanes.store(start, lanes.const(row * stride), value, 8 * self._elems)
        if low:
            kept = [self._kept(word, unit, row) for word in low]
            start, stride = unit.rows(self._out["remainder_low"], UNIT_ELEMS, 2)
            store_halves(lanes, start, lanes.const(row * stride), kept, self._elems)

    def _store_packed(self, unit: Unit, name: str, packed: "_Packed") -> None:
        start, stride = unit.rows(self._out[name], packed.bits, 2)
        for index, words in enumerate(packed.words):
            offset = self._lanes.const(index * stride)
            store_halves(self._lanes, start, offset, words, self._elems)


class _Flags:
    """Bits 15 of the halves of 16 rows, gathered into a mask of each column."""

    def __init__(self, lanes: Lanes):
        self._lanes = lanes
        self._bytes: list[Word] = [None, None]  # of rows 0 to 7 and 8 to 15, one for each column

    def add(self, row: int, words: list[Word]) -> None:
        """Take those of one row's pair words."""
        flags = _merged(self._lanes, words, _TOP_BITS)
        half, bit = divmod(row, 8)
        mask, before = 0x01010101 << bit, self._bytes[half]
        if before is None:
            self._bytes[half] = self._lanes.and_(flags, self._lanes.const(mask))
        else:
            self._bytes[half] = self._lanes.masked(flags, mask, before, AND_OR)

    def masks(self, num_pairs: int) -> list[Word]:
        """Of each column 16 bits, two to a word."""
        first, second = self._bytes
        return [self._lanes.merge_bytes(first, second, s) for s in _BYTES_IN_TURN[:num_pairs]]


class _Packed:
    """Rows of 3 or 4 bits packed as `docs/wire-format.md` says, row after row.

    Attributes:
        bits: of a row.
        words: [bits][pairs].
    """

    def __init__(self, pairs: Pairs, bits: int, num_pairs: int):
        self._pairs, self.bits = pairs, bits
        self.words: list[list[Word]] = [[None] * num_pairs for _ in range(bits)]

    def add(self, pair: int, row: int, word: Word, at: int) -> None:
        """Take the bits from position `at` of both halves."""
        per_word = 16 // self.bits
        if row < self.bits * per_word:
            shift = row % per_word * self.bits
            self._join(row // per_word, pair, word, at - shift, (1 << self.bits) - 1 << shift)
        else:
            for bit in range(self.bits):
                self._join(bit, pair, word, at + bit - 15, 0x8000)

    def _join(self, index: int, pair: int, word: Word, right: int, mask: int) -> None:
        before = self.words[index][pair]
        self.words[index][pair] = self._pairs.field(word, right, mask, before)


def _merged(lanes: Lanes, words: list[Word], selector: int) -> Word:
    """Bytes of one or two pair words; of one, twice."""
    return lanes.merge_bytes(words[0], words[-1], selector)


def _twos(words: Sequence[Word]) -> list[tuple[Word, Word]]:
    return list(zip(words[::2], words[1::2], strict=True))
