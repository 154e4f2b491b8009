"""Device function that looks at the exponents of a run's sample: their mean, what lifts miss."""

from collections.abc import Callable, Sequence

from pallas_kernels.format.slot_layout import (
    MEAN_TO_BASE_1024,
    NUM_LIFTS,
    SAMPLE_ELEMS,
    SlotLayout,
)
from pallas_kernels.lanes import GROUP_LANES, Lanes, Memory, Word, logic_table
from pallas_kernels.slots import both, load_halves, vector_elems

_HIGH_HALVES = 0x7632  # of two words
_MISSED = logic_table(lambda a, b, c: c & ~(a & ~b))


def sample_block(
    lanes: Lanes,
    layout: SlotLayout,
    words: Memory,
    base: Memory,
    known: Memory,
    missed: Memory,
    block: Word,
) -> None:
    """Sample 128 runs.

    Args:
        lanes: the lanes.
        layout: the sizes.
        words: uint16 or uint32 [num_elems].
        base: uint8 [128], the run's base before any lift; 0 where the sample says nothing.
        known: uint8 [128], whether it says something: 1 or 0.
        missed: uint8 [128, 4], how many sampled elements each lift leaves outside the window.
        block: number of the block; each has its 128 runs.
    """
    lane = lanes.lane_in_group()
    run = lanes.add(lanes.mul(block, lanes.const(GROUP_LANES)), lane)
    sample = _Sample(lanes, layout, words, run)
    zero, one = lanes.const(0), lanes.const(1)

    def add_up(exponent: Word, regular: Word, total: Word, count: Word) -> list[Word]:
        one_each = lanes.shr(regular, 15)
        kept = lanes.and_(exponent, lanes.mul(one_each, lanes.const(0xFFFF)))
        return [lanes.add(total, kept), lanes.add(count, one_each)]

    total, count = (_both_halves(lanes, word) for word in sample.each(add_up, [zero, zero]))
    offset = lanes.mul(count, lanes.const(MEAN_TO_BASE_1024[layout.code_bits]))
    above = lanes.sub(lanes.shl(total, 10), offset)
    above = lanes.select_less(above, zero, zero, above)
    divisor = lanes.select_less(zero, count, lanes.shl(count, 10), one)
    first = lanes.divide_by(above, divisor)

    lowest = lanes.mul(lanes.add(first, lanes.const(layout.lowest_code)), lanes.const(both(1)))
    width = layout.window - layout.lowest_code

    def miss(exponent: Word, regular: Word, *counts: Word) -> list[Word]:
        # Nothing is borrowed from the other half: exponents and bases are small beside 0x8000.
        place = lanes.sub(lanes.add(exponent, lanes.const(both(0x8000))), lowest)
        out = []
        for lift, before in enumerate(counts):
            from_first = lanes.sub(place, lanes.const(both(lift)))
            past_last = lanes.sub(place, lanes.const(both(lift + width)))
            flag = lanes.logic(from_first, past_last, regular, _MISSED)
            out.append(lanes.add(before, lanes.shr(flag, 15)))
        return out

    counts = sample.each(miss, [zero] * NUM_LIFTS)
    lanes.store(base, lane, first, 8)
    lanes.store(known, lane, lanes.select_less(zero, count, one, zero), 8)
    own = lanes.mul(lane, lanes.const(NUM_LIFTS))
    for lift, word in enumerate(counts):
        lanes.store(missed, lanes.add(own, lanes.const(lift)), _both_halves(lanes, word), 8)


class _Sample:
    """The first elements of a run, one or four at a time."""

    def __init__(self, lanes: Lanes, layout: SlotLayout, words: Memory, run: Word):
        self._lanes, self._layout, self._elems = lanes, layout, vector_elems(layout)
        self._itemsize = layout.word_dtype.itemsize
        self._first = lanes.mul(run, lanes.const(layout.run_elems))
        self._last = lanes.const(layout.num_elems - self._elems)
        self._words = words
        self._num_elems = min(SAMPLE_ELEMS, layout.run_elems)
        self._held: list[tuple[Word, Word]] | None = None
        if self._elems == 4:  # all in registers, and all loads under way at once
            turns = range(0, self._num_elems, 4)
            tops = [self._tops(lanes.const(index)) for index in turns]
            self._held = [
                pair
                for index, top in zip(turns, tops, strict=True)
                for pair in self._pairs(lanes.const(index), top)
            ]

    def each(self, body: Callable[..., Sequence[Word]], carry: Sequence[Word]) -> Sequence[Word]:
        """`carry = body(exponents, regular, *carry)` for all pairs.

        In each half the exponent, and 0x8000 or 0 for whether it counts: not where it is that of
        zero, subnormal or non-finite values, or of padding.
        """
        lanes = self._lanes
        if self._held is not None:
            for exponent, regular in self._held:
                carry = body(exponent, regular, *carry)
            return carry

        def turn(index: Word, *state: Word) -> Sequence[Word]:
            ((exponent, regular),) = self._pairs(index, self._tops(index))
            return body(exponent, regular, *state)

        return lanes.loop(lanes.const(0), lanes.const(self._num_elems), 1, turn, [], carry)

    def _pairs(self, index: Word, tops: list[Word]) -> list[tuple[Word, Word]]:
        lanes, layout = self._lanes, self._layout
        largest = layout.num_exponents - 1
        number = lanes.add(self._first, index)
        # All ones where it is data; padding is then 0, which does not count.
        inside = lanes.select_less(self._last, number, lanes.const(0), lanes.const(-1))
        pairs = []
        for top in tops:
            exponent = lanes.shr(lanes.and_(top, inside), 15 - layout.exponent_bits)
            exponent = lanes.and_(exponent, lanes.const(both(largest)))
            after = lanes.add(exponent, lanes.const(both(1)))  # 1 and largest + 1 do not count
            after = lanes.and_(after, lanes.const(both(largest - 1)))
            regular = lanes.add(after, lanes.const(both(0x7FFF)))
            pairs.append((exponent, lanes.and_(regular, lanes.const(both(0x8000)))))
        return pairs

    def _tops(self, index: Word) -> list[Word]:
        """Pair words of the upper halves from an element of the run on."""
        lanes = self._lanes
        number = lanes.min(lanes.add(self._first, index), self._last)
        start, zero = lanes.moved(self._words, number, self._itemsize), lanes.const(0)
        if self._itemsize == 2:
            return load_halves(lanes, start, zero, self._elems)
        if self._elems == 1:
            return [lanes.shr(lanes.load(start, zero, 32), 16)]
        a, b, c, d = lanes.load_vector(start, zero, 4)
        return [lanes.merge_bytes(a, b, _HIGH_HALVES), lanes.merge_bytes(c, d, _HIGH_HALVES)]


def _both_halves(lanes: Lanes, word: Word) -> Word:
    """The sum of the two halves."""
    return lanes.add(lanes.and_(word, lanes.const(0xFFFF)), lanes.shr(word, 16))
