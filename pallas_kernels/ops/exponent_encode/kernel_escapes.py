"""Device functions for the escapes of a block of groups: which take slots, and which are listed.

Only set bits are looked at: the first of each group become slots, the other near ones, and all that
are far, are marked for the far list.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pallas_kernels.format.slot_layout import UNIT_ELEMS, SlotLayout
from pallas_kernels.lanes import Lanes, Memory, Word
from pallas_kernels.slots import AND_OR, BLOCK_GROUPS, Groups, groups_of

MAX_UNROLLED_SLOTS = 16


class Escapes(NamedTuple):
    """Where the escapes of a block are noted, in shared memory.

    Attributes:
        near: uint16 [16 j, 128], bit i for row i.
        far: uint16 [16 j, 128].
        places: uint8 [C, 128], the first near places of each group.
    """

    near: Memory
    far: Memory
    places: Memory


def list_escapes(
    lanes: Lanes, layout: SlotLayout, escapes: Escapes, out: Mapping[str, Memory], block: Word
) -> None:
    """Write slots and marks: lane k those of group k; beyond the end, again those of the last.

    Args:
        lanes: the lanes.
        layout: the sizes.
        escapes: of all units of the block.
        out: `slots`, `num_listed` and `listed`; see `kernel_units.encode_block`.
        block: its number.
    """
    groups = groups_of(lanes, layout, block, lanes.lane_in_group(), 1)
    column = lanes.sub(groups.number, lanes.shl(block, BLOCK_GROUPS.bit_length() - 1))
    num_slots, zero = lanes.const(layout.num_slots), lanes.const(0)
    count, total, listed = zero, zero, []
    for word in range(UNIT_ELEMS // 2):
        near = _mask_of_two(lanes, escapes.near, word, column)
        free = lanes.sub(num_slots, count)
        taken = lanes.min(lanes.popcount(near), free)
        near = _take(lanes, escapes.places, near, taken, count, 32 * word, column)
        count = lanes.add(count, taken)
        far = _mask_of_two(lanes, escapes.far, word, column)
        listed.append(lanes.masked(near, 0xFFFFFFFF, far, AND_OR))
        total = lanes.add(total, lanes.popcount(listed[-1]))
    own = lanes.moved(out["num_listed"], groups.number, 2)
    lanes.store(own, zero, total, 16)

    def mark() -> None:
        own = lanes.moved(out["listed"], groups.number, 2 * UNIT_ELEMS)
        for first in (0, 4):
            lanes.store_vector(own, lanes.const(4 * first), listed[first : first + 4])

    lanes.when_less(zero, total, mark)
    _fill_slots(lanes, layout, escapes.places, out["slots"], groups, count, column)


def _take(
    lanes: Lanes, places: Memory, near: Word, taken: Word, count: Word, first: int, column: Word
) -> Word:
    """Note the places of the lowest `taken` bits from slot `count` on; returns the other bits."""
    start = lanes.add(lanes.mul(count, lanes.const(BLOCK_GROUPS)), column)

    def take(index: Word, rest: Word) -> list[Word]:
        place = lanes.add(lanes.lowest_bit(rest), lanes.const(first))
        slot = lanes.add(start, lanes.mul(index, lanes.const(BLOCK_GROUPS)))
        lanes.store(places, slot, place, 8)
        return [lanes.and_(rest, lanes.sub(rest, lanes.const(1)))]

    (rest,) = lanes.loop(lanes.const(0), taken, 1, take, [places], [near])
    return rest


def _fill_slots(
    lanes: Lanes,
    layout: SlotLayout,
    places: Memory,
    slots: Memory,
    groups: Groups,
    count: Word,
    column: Word,
) -> None:
    """Write all slots of a group: an unused one repeats the first; 1, 0, 0, .. where none is."""
    tile = lanes.moved(slots, groups.tile, layout.num_slots * layout.run_elems)
    tile = lanes.moved(tile, groups.place, 1)
    zero, one = lanes.const(0), lanes.const(1)

    def fill(slot: Word) -> None:
        source = lanes.select_less(slot, count, slot, zero)
        source = lanes.add(lanes.mul(source, lanes.const(BLOCK_GROUPS)), column)
        none = lanes.select_less(slot, one, one, zero)
        value = lanes.select_less(zero, count, lanes.load(places, source, 8), none)
        lanes.store(tile, lanes.mul(slot, lanes.const(layout.run_elems)), value, 8)

    if layout.num_slots <= MAX_UNROLLED_SLOTS:
        for slot in range(layout.num_slots):
            fill(lanes.const(slot))
    else:
        lanes.loop(zero, lanes.const(layout.num_slots), 1, fill, [slots])


def _mask_of_two(lanes: Lanes, masks: Memory, index: int, column: Word) -> Word:
    """The masks of units 2 index and 2 index + 1 of a group, as one word."""
    own = lanes.shl(column, 1)
    low, high = (
        lanes.load(masks, lanes.add(own, lanes.const(2 * BLOCK_GROUPS * j)), 16)
        for j in (2 * index, 2 * index + 1)
    )
    return lanes.masked(lanes.shl(high, 16), 0xFFFFFFFF, low, AND_OR)
