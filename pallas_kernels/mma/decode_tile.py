"""Device functions that turn stored words and an exponent plane into weights in registers.

The exponent plane is shared memory with one byte for each element of the four tiles that a
warpgroup works on: the window's base, or, where an element is patched, its exponent. So a patch
costs nothing in the main stream, and any exponent is exact (zero, subnormal, infinity, NaN):

    pair word = plane bytes << M + (sign | code << M | mantissa)

which is a byte permutation on one pipe and a multiply-add on the other. A warp works on its own
tile, 4096 bytes of the plane; byte p is the element at position p (`format.mma_order`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from pallas_kernels.format import (
    PAIR_WORDS_PER_GROUP,
    PATCH_WORDS_STEP,
    TILE_ELEMS,
    TILE_PATCH_WORDS,
    FloatSpec,
    kept_mask,
    secondary_pieces,
    words_per_group,
)
from pallas_kernels.lanes import WARP_LANES, Lanes, Memory, Word, logic_table

WINDOW_WORDS = 8 * TILE_PATCH_WORDS + 2 * PATCH_WORDS_STEP  # all a group can have, with its edges
PLANE_NBYTES = 4 * TILE_ELEMS
_AND_OR = logic_table(lambda a, b, c: (a & b) | c)
_LOW_BYTES = 0x4140  # bytes 0 and 1 of a word, each as 16 bits
_HIGH_BYTES = 0x4342
_LOAD_NBYTES = 16 * WARP_LANES


def decode_groups(lanes: Lanes, words: Memory, plane: Memory, spec: FloatSpec) -> list[list[Word]]:
    """The four 64-deep groups of each warp's tile, 16 pair words each.

    Args:
        lanes: the lanes.
        words: a warpgroup's four tiles, uint32 [4, W, 32, 4].
        plane: its exponent plane, uint8 [4, 4096].
        spec: the float.
    """
    count = words_per_group(spec)
    warp, lane_offset = _warp_and_lane(lanes)
    lane_offset = lanes.mul(lane_offset, lanes.const(16))
    stored = _Stream(lanes, words, _at(lanes, warp, count * _LOAD_NBYTES, lane_offset))
    exponents = _Stream(lanes, plane, _at(lanes, warp, TILE_ELEMS, lane_offset))

    groups = []
    for group in range(4):
        kept = _unpack(lanes, [stored.word(count * group + i) for i in range(count)], spec)
        pairs = []
        for index, word in enumerate(kept):
            pair = PAIR_WORDS_PER_GROUP * group + index
            selector = _HIGH_BYTES if pair % 2 else _LOW_BYTES
            exponent = lanes.pick_bytes(exponents.word(pair // 2), selector)
            pairs.append(lanes.multiply_add(exponent, 1 << spec.mantissa_bits, word))
        groups.append(pairs)
    return groups


class PatchLists(NamedTuple):
    """The lists of the eight tiles that two warpgroups share in a step.

    Attributes:
        offsets: uint32 [9, 2], where each tile's patch words and rare entries start.
        window: uint32 [WINDOW_WORDS], the patch words from the last multiple of 8 at or before the
            first tile's.
        rare: uint32 [R], the rare entries of all tiles.
    """

    offsets: Memory
    window: Memory
    rare: Memory


def write_patches(
    lanes: Lanes, lists: PatchLists, plane: Memory, table: Word, warpgroup: Word
) -> list[Word]:
    """Put the exponents of escapes into the plane, for each warp's tile.

    Args:
        lanes: the lanes.
        lists: the escapes.
        plane: the exponent plane.
        table: in lane l of each warp, exponent l % 16 of the table.
        warpgroup: 0 or 1, the half of the tiles.

    Returns:
        what `restore_plane` needs.
    """
    warp, lane = _warp_and_lane(lanes)
    tile = lanes.mul(warp, lanes.const(TILE_ELEMS))
    own = _at(lanes, warpgroup, 8 * 4, lanes.mul(warp, lanes.const(8)))
    start, rare_start = lanes.load_vector(lists.offsets, own, 2)
    end, rare_end = lanes.load_vector(lists.offsets, lanes.add(own, lanes.const(8)), 2)
    first = lanes.and_(lanes.load(lists.offsets, lanes.const(0), 32), lanes.const(~7))
    at, stop = (_at(lanes, lanes.sub(x, first), 4, lanes.const(0)) for x in (start, end))
    lane_offset = lanes.mul(lane, lanes.const(4))
    lanes.sync_warp()

    def write(at: Word) -> None:
        own = lanes.min(lanes.add(at, lane_offset), lanes.sub(stop, lanes.const(4)))
        pair = lanes.load(lists.window, own, 32)
        for entry, address in _entries(lanes, pair, tile):
            lanes.store(plane, address, lanes.shuffle(table, entry), 8)

    def write_rare(at: Word) -> None:
        entry = lanes.load(lists.rare, at, 32)
        lanes.store(plane, lanes.add(lanes.shr(entry, 8), tile), entry, 8)

    lanes.loop(at, stop, 4 * WARP_LANES, write, [plane])
    rare_at = _at(lanes, lanes.add(rare_start, lane), 4, lanes.const(0))
    rare_stop = _at(lanes, rare_end, 4, lanes.const(0))
    lanes.loop(rare_at, rare_stop, 4 * WARP_LANES, write_rare, [plane])
    lanes.sync_warp()
    return [at, stop, rare_at, rare_stop]


def restore_plane(lanes: Lanes, lists: PatchLists, plane: Memory, base: Word, *state: Word) -> None:
    """Undo `write_patches`: the plane is all `base` again.

    Args:
        lanes: the lanes.
        lists: the escapes.
        plane: the exponent plane.
        base: the window's base.
        *state: from `write_patches`.
    """
    at, stop, rare_at, rare_stop = state
    warp, lane = _warp_and_lane(lanes)
    tile = lanes.mul(warp, lanes.const(TILE_ELEMS))
    lane_offset = lanes.mul(lane, lanes.const(4))
    lanes.sync_warp()

    def restore(at: Word) -> None:
        own = lanes.min(lanes.add(at, lane_offset), lanes.sub(stop, lanes.const(4)))
        for _, address in _entries(lanes, lanes.load(lists.window, own, 32), tile):
            lanes.store(plane, address, base, 8)

    def restore_rare(at: Word) -> None:
        entry = lanes.load(lists.rare, at, 32)
        lanes.store(plane, lanes.add(lanes.shr(entry, 8), tile), base, 8)

    lanes.loop(at, stop, 4 * WARP_LANES, restore, [plane])
    lanes.loop(rare_at, rare_stop, 4 * WARP_LANES, restore_rare, [plane])


def load_exponents(lanes: Lanes, exponents: Memory) -> list[Word]:
    """The window's base in every lane, and the table as `write_patches` wants it.

    Args:
        lanes: the lanes.
        exponents: uint8 [17], the base and the table.
    """
    entry = lanes.and_(lanes.lane_in_group(), lanes.const(15))
    table = lanes.load(exponents, lanes.add(entry, lanes.const(1)), 8)
    return [lanes.load(exponents, lanes.const(0), 8), table]


def _unpack(lanes: Lanes, stored: Sequence[Word], spec: FloatSpec) -> list[Word]:
    """16 pair words without their exponents from W stored words."""
    pairs = [lanes.and_(word, lanes.const(kept_mask(spec))) for word in stored]
    for pieces in secondary_pieces(spec):
        pair: Word = None
        for piece in pieces:
            word = stored[piece.word]
            moved = lanes.shr(word, piece.left) if piece.left > 0 else lanes.shl(word, -piece.left)
            if pair is None:
                pair = lanes.and_(moved, lanes.const(piece.mask))
            else:
                pair = lanes.masked(moved, piece.mask, pair, _AND_OR)
        pairs.append(pair)
    return pairs


def _entries(lanes: Lanes, pair: Word, tile: Word) -> list[tuple[Word, Word]]:
    """The two entries of a word (their low four bits are the index) and their plane addresses."""
    low = lanes.masked(lanes.shr(pair, 4), TILE_ELEMS - 1, tile, _AND_OR)
    high = lanes.add(lanes.shr(pair, 20), tile)
    return [(pair, low), (lanes.shr(pair, 16), high)]


def _warp_and_lane(lanes: Lanes) -> tuple[Word, Word]:
    thread = lanes.lane_in_group()
    return lanes.shr(thread, 5), lanes.and_(thread, lanes.const(WARP_LANES - 1))


def _at(lanes: Lanes, index: Word, stride: int, offset: Word) -> Word:
    return lanes.add(lanes.mul(index, lanes.const(stride)), offset)


class _Stream:
    """Words of a lane, loaded four at a time, each load once."""

    def __init__(self, lanes: Lanes, memory: Memory, offset: Word):
        self._lanes, self._memory, self._offset = lanes, memory, offset
        self._loaded: dict[int, Sequence[Word]] = {}

    def word(self, index: int) -> Word:
        """Word `index` of the lane."""
        load, within = divmod(index, 4)
        if load not in self._loaded:
            at = self._lanes.add(self._offset, self._lanes.const(load * _LOAD_NBYTES))
            self._loaded[load] = self._lanes.load_vector(self._memory, at, 4)
        return self._loaded[load][within]
