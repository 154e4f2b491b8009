"""Device functions that decode a block of groups: slots into masks, then unit by unit.

A slot costs one bit set in shared memory, so escapes cost in proportion to the slots. An element
then takes its exponent from its code and its bit of the mask:

    v = code + window * escape,     r = v + (2^E - 2 * window) * (v > window)

because the code just above the window is 0 and all others are below it.
"""

from collections.abc import Mapping

from pallas_kernels.format.slot_layout import UNIT_ELEMS, SlotLayout
from pallas_kernels.lanes import Lanes, Memory, Word
from pallas_kernels.slots import (
    AND_OR,
    BLOCK_GROUPS,
    Pairs,
    both,
    for_units,
    groups_of,
    load_halves,
    store_halves,
    vector_elems,
)
from pallas_kernels.slots.block import Unit

MAX_UNROLLED_SLOTS = 16
_LOW_HALVES, _HIGH_HALVES = 0x5410, 0x7632  # of two words
_BYTES_TWICE = (0x1100, 0x3322)  # of four bytes, two in both bytes of a half


def decode_block(
    lanes: Lanes,
    layout: SlotLayout,
    streams: Mapping[str, Memory],
    masks: Memory,
    out: Memory,
    block: Word,
) -> None:
    """Decode all but the far elements of a block.

    Args:
        lanes: the lanes.
        layout: the sizes.
        streams: name -> the payload's arrays.
        masks: shared memory, uint16 [16, 128].
        out: uint16 or uint32 [num_elems].
        block: its number.
    """
    fill_masks(lanes, layout, streams["slots"], masks, block)
    lanes.sync_group()
    decoder = _UnitDecoder(lanes, layout, streams, masks, out)
    for_units(lanes, layout, block, decoder.decode, [out])


def fill_masks(lanes: Lanes, layout: SlotLayout, slots: Memory, masks: Memory, block: Word) -> None:
    """Set the bit of every slot: lane k those of group k, which no other lane touches."""
    column = lanes.lane_in_group()
    groups = groups_of(lanes, layout, block, column, 1)
    own = lanes.shl(column, 1)
    for j in range(UNIT_ELEMS):
        at = lanes.add(own, lanes.const(2 * BLOCK_GROUPS * j))
        lanes.store(masks, at, lanes.const(0), 16)
    run = layout.run_elems
    tile = lanes.moved(slots, groups.tile, layout.num_slots * run)
    first, second = (lanes.load(tile, _plus(lanes, groups.place, c * run), 8) for c in (0, 1))
    bit = lanes.select_less(second, first, lanes.const(0), lanes.const(1))  # descending: none

    def fill(slot: Word) -> None:
        offset = lanes.add(lanes.mul(slot, lanes.const(run)), groups.place)
        position = lanes.load(tile, offset, 8)
        row = lanes.and_(position, lanes.const(UNIT_ELEMS - 1))
        unit = lanes.mul(lanes.shr(position, 4), lanes.const(2 * BLOCK_GROUPS))
        at = lanes.add(unit, own)
        marked = lanes.masked(lanes.shl_by(bit, row), 0xFFFF, lanes.load(masks, at, 16), AND_OR)
        lanes.store(masks, at, marked, 16)

    if layout.num_slots <= MAX_UNROLLED_SLOTS:
        for slot in range(layout.num_slots):
            fill(lanes.const(slot))
    else:
        lanes.loop(lanes.const(0), lanes.const(layout.num_slots), 1, fill, [masks])


class _UnitDecoder:
    """Decodes units of 16 rows; a lane has those of 1 or 4 neighbouring groups."""

    def __init__(
        self,
        lanes: Lanes,
        layout: SlotLayout,
        streams: Mapping[str, Memory],
        masks: Memory,
        out: Memory,
    ):
        self._lanes, self._layout, self._pairs = lanes, layout, Pairs(lanes, layout)
        self._streams, self._masks, self._out = streams, masks, out
        self._elems = vector_elems(layout)

    def decode(self, unit: Unit) -> None:
        """All rows; what is loaded is loaded first, so that the loads overlap."""
        lanes = self._lanes
        code = self._packed(unit, "code", self._layout.code_bits)
        low = self._low(unit)
        bytes_of_row, base_of_row = self._remainder(unit), self._bases(unit)
        masks = load_halves(lanes, self._masks, unit.mask_offset, self._elems)
        out, stride = unit.rows(self._out, UNIT_ELEMS, self._layout.word_dtype.itemsize)
        for row in range(UNIT_ELEMS):
            place = self._pairs.place(base_of_row[row])
            words = []
            for pair, mask in enumerate(masks):
                signs = lanes.pick_bytes(bytes_of_row[row], _BYTES_TWICE[pair])
                relative = self._exponent([word[pair] for word in code], mask, row)
                relative = self._mantissa(signs, [word[pair] for word in low], row, relative)
                word = self._pairs.plus_base(relative, signs, place)
                words.append(self._pairs.exchange_zero(word, place))
            if self._layout.word_bits == 32:
                words = self._joined(words, low[row])
            self._store(unit, out, row, stride, words)

    def _exponent(self, code: list[Word], mask: Word, row: int) -> Word:
        """Relative exponents of a pair, in place."""
        lanes, pairs, layout = self._lanes, self._pairs, self._layout
        mantissa, window = pairs.mantissa, layout.window
        above = mantissa + layout.code_bits
        escape = pairs.field(mask, row - above, 1 << above)
        joined = self._unpacked(code, layout.code_bits, mantissa, row, escape)
        beyond = lanes.add(joined, lanes.const(both(window - 1 << mantissa)))
        below = lanes.and_(beyond, lanes.const(both(2 << above)))
        factor = (1 << layout.exponent_bits - layout.code_bits - 1) - 1
        return lanes.multiply_add(below, factor, joined) if factor else joined

    def _mantissa(self, signs: Word, low: list[Word], row: int, exponent: Word) -> Word:
        """Upper mantissa bits of a pair, in place, with the exponents."""
        if self._layout.exponent_bits == 8:
            return self._pairs.field(signs, 0, 0x7F, exponent)
        exponent = self._unpacked(low, 3, 0, row, exponent)
        return self._pairs.field(signs, 5, 0x3F8, exponent)  # the upper of two equal bytes

    def _unpacked(self, packed: list[Word], bits: int, place: int, row: int, others: Word) -> Word:
        """One row of what `pack_rows` packed, moved up to `place`; see `docs/wire-format.md`."""
        per_word = 16 // bits
        if row < bits * per_word:
            word, shift = packed[row // per_word], row % per_word * bits
            return self._pairs.field(word, shift - place, (1 << bits) - 1 << place, others)
        for bit in range(bits):
            others = self._pairs.field(packed[bit], 15 - place - bit, 1 << place + bit, others)
        return others

    def _joined(self, top: list[Word], low: list[Word]) -> list[Word]:
        """float32 words from their halves."""
        selectors = (_LOW_HALVES, _HIGH_HALVES)[: self._elems]
        return [
            self._lanes.merge_bytes(lower, upper, selector)
            for lower, upper in zip(low, top, strict=True)
            for selector in selectors
        ]

    def _packed(self, unit: Unit, name: str, num_words: int) -> list[list[Word]]:
        """Words of a packed stream."""
        start, stride = unit.rows(self._streams[name], num_words, 2)
        return [
            load_halves(self._lanes, start, self._lanes.const(word * stride), self._elems)
            for word in range(num_words)
        ]

    def _low(self, unit: Unit) -> list[list[Word]]:
        """Lower mantissa bits: 16 rows of float32, three packed words of float16."""
        if "remainder_low" not in self._streams:
            return []
        num_words = UNIT_ELEMS if self._layout.word_bits == 32 else 3
        return self._packed(unit, "remainder_low", num_words)

    def _remainder(self, unit: Unit) -> list[Word]:
        """Of each row 1 or 4 bytes."""
        start, stride = unit.rows(self._streams["remainder"], UNIT_ELEMS, 1)
        return [
            self._lanes.load(start, self._lanes.const(row * stride), 8 * self._elems)
            for row in range(UNIT_ELEMS)
        ]

    def _bases(self, unit: Unit) -> list[Word]:
        start, stride = unit.bases(self._streams["side"])
        return [
            self._lanes.load(start, self._lanes.const(row * stride), 8) for row in range(UNIT_ELEMS)
        ]

    def _store(self, unit: Unit, out: Memory, row: int, stride: int, words: list[Word]) -> None:
        """A row's words, unless they are padding."""
        lanes, layout = self._lanes, self._layout
        offset = lanes.const(row * stride)

        def store() -> None:
            if layout.word_bits == 16:
                store_halves(lanes, out, offset, words, self._elems)
            elif self._elems == 1:
                lanes.store(out, offset, words[0], 32)
            else:
                lanes.store_vector(out, offset, words)

        if layout.num_elems == layout.padded_elems:
            store()
        else:
            number = _plus(lanes, unit.number(), row * UNIT_ELEMS * layout.run_elems)
            lanes.when_less(number, lanes.const(layout.num_elems), store)


def _plus(lanes: Lanes, word: Word, value: int) -> Word:
    return lanes.add(word, lanes.const(value))
