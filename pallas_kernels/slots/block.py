"""The 128 groups of a block: where their elements are, and who works on what.

A warpgroup takes 128 consecutive groups (t, l), counted through all tiles. Lane k looks after the
slots of group k. The units are dealt out by rows: a warp takes one j at a time, a lane the units of
one or four neighbouring l, so that what a warp loads or stores is consecutive in memory. The two
halves of the work meet in shared memory, where each unit has a mask of 16 rows: uint16 [16 j, 128].
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pallas_kernels.format.slot_layout import GROUP_ELEMS, UNIT_ELEMS, SlotLayout
from pallas_kernels.lanes import GROUP_LANES, WARP_LANES, Lanes, Memory, Word

BLOCK_GROUPS = GROUP_LANES
MASKS_NBYTES = 2 * UNIT_ELEMS * BLOCK_GROUPS
_WARPS = GROUP_LANES // WARP_LANES


class Groups(NamedTuple):
    """Neighbouring groups of one tile, in each lane its own.

    Attributes:
        number: of the first, counted through all tiles.
        tile: t.
        place: l of the first.
    """

    number: Word
    tile: Word
    place: Word


def vector_elems(layout: SlotLayout) -> int:
    """Neighbouring l that a lane works on: 4 where no such piece is cut by a run or the end."""
    return 1 if layout.run_elems % 4 or layout.num_elems % 4 else 4


def num_blocks(layout: SlotLayout) -> int:
    """Blocks of 128 groups, the last one filled by repeating."""
    return -(-layout.num_tiles * layout.run_elems // BLOCK_GROUPS)


def groups_of(
    lanes: Lanes, layout: SlotLayout, block: Word, column: Word, num_groups: int
) -> Groups:
    """The groups from `column` of the block on; beyond the end, the last ones of all.

    Args:
        lanes: the lanes.
        layout: the sizes.
        block: number of the block.
        column: 0 to 127.
        num_groups: how many, 1 or `vector_elems`.
    """
    first = lanes.add(lanes.shl(block, BLOCK_GROUPS.bit_length() - 1), column)
    last = lanes.const(layout.num_tiles * layout.run_elems - num_groups)
    number = lanes.min(first, last)
    tile = lanes.divide(number, layout.run_elems)
    start = lanes.mul(tile, lanes.const(layout.run_elems))
    return Groups(number, tile, lanes.sub(number, start))


class Unit:
    """The units of 1 or 4 neighbouring groups at one j, and the addresses of what belongs to them.

    Attributes:
        tile: t.
        column: the first group's place in the block.
        mask_offset: in masks of the block, of the first unit's.
    """

    def __init__(self, lanes: Lanes, layout: SlotLayout, groups: Groups, column: Word, j: Word):
        """All words are one a lane."""
        self._lanes, self._run = lanes, layout.run_elems
        self._j = j
        self._elem = lanes.add(lanes.mul(j, lanes.const(self._run)), groups.place)
        self.tile, self.column = groups.tile, column
        row = lanes.add(lanes.shl(j, BLOCK_GROUPS.bit_length() - 1), column)
        self.mask_offset = lanes.shl(row, 1)

    def rows(self, memory: Memory, num_rows: int, itemsize: int) -> tuple[Memory, int]:
        """Of an array [T, num_rows, 16, L], the place of row 0, and the bytes from row to row."""
        stride = UNIT_ELEMS * self._run * itemsize
        tile = self._lanes.moved(memory, self.tile, num_rows * stride)
        return self._lanes.moved(tile, self._elem, itemsize), stride

    def bases(self, side: Memory) -> tuple[Memory, int]:
        """The same of the bases, uint8 [T, 16, 16]."""
        tile = self._lanes.moved(side, self.tile, GROUP_ELEMS)
        return self._lanes.moved(tile, self._j, 1), UNIT_ELEMS

    def number(self) -> Word:
        """The number e of the first element of row 0."""
        tile = self._lanes.mul(self.tile, self._lanes.const(GROUP_ELEMS * self._run))
        return self._lanes.add(tile, self._elem)


def for_units(
    lanes: Lanes,
    layout: SlotLayout,
    block: Word,
    body: Callable[[Unit], None],
    writes: Sequence[Memory],
) -> None:
    """`body(unit)` for all units of a block, one to four in a lane at a time.

    Args:
        lanes: the lanes.
        layout: the sizes.
        block: number of the block.
        body: may not synchronise.
        writes: memories that it stores to.
    """
    thread = lanes.lane_in_group()
    lane, warp = lanes.and_(thread, lanes.const(WARP_LANES - 1)), lanes.shr(thread, 5)
    elems = vector_elems(layout)
    parts = BLOCK_GROUPS // (WARP_LANES * elems)  # of a row j, one for each turn of a warp
    bits = parts.bit_length() - 1

    def turn(index: Word) -> None:
        part = lanes.and_(index, lanes.const(parts - 1))
        column = lanes.add(lanes.shl(part, 5), lane)
        column = lanes.mul(column, lanes.const(elems))
        groups = groups_of(lanes, layout, block, column, elems)
        # Where it was moved back from beyond the end, its masks are those of where it is now.
        column = lanes.sub(groups.number, lanes.shl(block, BLOCK_GROUPS.bit_length() - 1))
        body(Unit(lanes, layout, groups, column, lanes.shr(index, bits)))

    lanes.loop(warp, lanes.const(UNIT_ELEMS * parts), _WARPS, turn, writes)


def load_halves(lanes: Lanes, memory: Memory, offset: Word, elems: int) -> list[Word]:
    """One or four neighbouring uint16, two to a word; of one, the other half is zero."""
    if elems == 1:
        return [lanes.load(memory, offset, 16)]
    return list(lanes.load_vector(memory, offset, 2))


def store_halves(
    lanes: Lanes, memory: Memory, offset: Word, words: Sequence[Word], elems: int
) -> None:
    """Undo `load_halves`."""
    if elems == 1:
        lanes.store(memory, offset, words[0], 16)
    else:
        lanes.store_vector(memory, offset, words)
