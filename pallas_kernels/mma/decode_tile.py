"""Device functions that turn stored words and an exponent plane into weights in registers.

The exponent plane is shared memory with one byte for each element of the four tiles that a
warpgroup works on: the window's base, or, where an element is patched, its exponent. So a patch
costs nothing in the main stream, and any exponent is exact (zero, subnormal, infinity, NaN):

    pair word = plane bytes << M + (sign | code << M | mantissa)

which is a byte permutation on one pipe and a multiply-add on the other. A warp works on its own
tile, 4096 bytes of the plane; byte p is the element at position p (`format.mma_order`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pallas_kernels.format import (
    MMA_GROUP_TILES,
    PAIR_WORDS_PER_GROUP,
    TILE_ELEMS,
    TILE_PATCH_WORDS,
    FloatSpec,
    kept_mask,
    secondary_pieces,
    words_per_group,
)
from pallas_kernels.lanes import WARP_LANES, Lanes, Memory, Word, logic_table

COMPUTE_WARPGROUPS = 2  # share the eight tiles of a step
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
    stored = _lane_stream(lanes, words, words_per_group(spec) * _LOAD_NBYTES)
    return decode_words(lanes, stored.word, plane, spec)


def decode_words(
    lanes: Lanes, stored: Callable[[int], Word], plane: Memory, spec: FloatSpec
) -> list[list[Word]]:
    """`decode_groups` of stored words in registers already, by their number in the lane."""
    count = words_per_group(spec)
    exponents = _lane_stream(lanes, plane, TILE_ELEMS)
    groups = []
    for group in range(4):
        kept = _unpack(lanes, [stored(count * group + i) for i in range(count)], spec)
        pairs = []
        for index, word in enumerate(kept):
            pair = PAIR_WORDS_PER_GROUP * group + index
            selector = _HIGH_BYTES if pair % 2 else _LOW_BYTES
            exponent = lanes.pick_bytes(exponents.word(pair // 2), selector)
            pairs.append(lanes.multiply_add(exponent, 1 << spec.mantissa_bits, word))
        groups.append(pairs)
    return groups


def load_words(
    lanes: Lanes, words: Memory, group: Word, warpgroup: Word, spec: FloatSpec
) -> list[Word]:
    """All stored words of a lane, from device memory into registers.

    Args:
        lanes: the lanes.
        words: uint32 [T, W, 32, 4], all tiles.
        group: eight tiles.
        warpgroup: 0 or 1, the half of them.
        spec: the float.
    """
    count = words_per_group(spec)
    warp, lane = _warp_and_lane(lanes)
    tile = _at(lanes, group, MMA_GROUP_TILES, _at(lanes, warpgroup, 4, warp))
    first = _at(lanes, tile, count * WARP_LANES, lane)
    loads = [
        lanes.load_vector_element(words, lanes.add(first, lanes.const(WARP_LANES * load)))
        for load in range(count)
    ]
    return [word for load in loads for word in load]


class Ends(NamedTuple):
    """Where the escapes of a warp's tile start and end in the lists of all tiles."""

    start: Word
    rare_start: Word
    end: Word
    rare_end: Word


class Escapes(NamedTuple):
    """The escapes of a warp's tile.

    Attributes:
        pairs: a patch word in each lane, twice: words 0 to 31 and 32 to 63 of the tile's list, of
            which the last is repeated.
        rare_start: first of the tile's rare entries.
        rare_end: where they end.
    """

    pairs: tuple[Word, ...]
    rare_start: Word
    rare_end: Word


def load_ends(lanes: Lanes, offsets: Memory, warpgroup: Word, group: Word) -> Ends:
    """Start loading where the escapes of each warp's tile are, two steps before they are needed.

    Args:
        lanes: the lanes.
        offsets: uint32 [.., 2], where each tile's patch words and rare entries start.
        warpgroup: 0 or 1, the half of the eight tiles.
        group: the eight tiles.
    """
    warp, _ = _warp_and_lane(lanes)
    tile = _at(lanes, group, MMA_GROUP_TILES, _at(lanes, warpgroup, 4, warp))
    own = lanes.mul(tile, lanes.const(8))
    start = lanes.load_vector(offsets, own, 2)
    end = lanes.load_vector(offsets, lanes.add(own, lanes.const(8)), 2)
    return Ends(*start, *end)


def load_escapes(lanes: Lanes, patches: Memory, ends: Ends) -> Escapes:
    """Start loading the escapes of each warp's tile, a step before they are needed.

    Args:
        lanes: the lanes.
        patches: uint32 [K], the patch words of all tiles.
        ends: where the tile's are.
    """
    _, lane = _warp_and_lane(lanes)
    last = lanes.sub(ends.end, lanes.const(1))
    pairs = []
    for turn in range(TILE_PATCH_WORDS // WARP_LANES):
        number = lanes.add(lanes.add(ends.start, lane), lanes.const(turn * WARP_LANES))
        pairs.append(lanes.load_element(patches, lanes.min(number, last)))
    return Escapes(tuple(pairs), ends.rare_start, ends.rare_end)


def write_escapes(
    lanes: Lanes, rare: Memory, plane: Memory, table: Word, escapes: Escapes
) -> list[Word]:
    """Put the exponents of escapes into the plane, for each warp's tile.

    Args:
        lanes: the lanes.
        rare: uint32 [R], the rare entries of all tiles.
        plane: the exponent plane.
        table: in lane l of each warp, exponent l % 16 of the table.
        escapes: of the tile.

    Returns:
        the addresses of the patches in the plane, for `restore_plane`.
    """
    tile = _tile_in_plane(lanes)
    lanes.sync_warp()
    addresses = []
    for pair in escapes.pairs:
        low = lanes.masked(lanes.shr(pair, 4), TILE_ELEMS - 1, tile, _AND_OR)
        high = lanes.add(lanes.shr(pair, 20), tile)
        lanes.store(plane, low, lanes.shuffle(table, pair), 8)
        lanes.store(plane, high, lanes.shuffle(table, lanes.shr(pair, 16)), 8)
        addresses += [low, high]

    def write(entry: Word) -> None:
        lanes.store(plane, lanes.add(lanes.shr(entry, 8), tile), entry, 8)

    _for_rare(lanes, rare, escapes, write, plane)
    lanes.sync_warp()
    return addresses


def restore_plane(
    lanes: Lanes,
    rare: Memory,
    plane: Memory,
    base: Word,
    escapes: Escapes,
    addresses: Sequence[Word],
) -> None:
    """Undo `write_escapes`: the plane is all `base` again."""
    tile = _tile_in_plane(lanes)
    lanes.sync_warp()
    for address in addresses:
        lanes.store(plane, address, base, 8)

    def restore(entry: Word) -> None:
        lanes.store(plane, lanes.add(lanes.shr(entry, 8), tile), base, 8)

    _for_rare(lanes, rare, escapes, restore, plane)


def fill_plane(lanes: Lanes, plane: Memory, base: Word) -> None:
    """All bytes of a warpgroup's exponent plane to the base."""
    word = lanes.mul(base, lanes.const(0x01010101))
    at = lanes.mul(lanes.lane_in_group(), lanes.const(4))
    for row in range(PLANE_NBYTES // 512):
        lanes.store(plane, lanes.add(at, lanes.const(512 * row)), word, 32)


def load_exponents(lanes: Lanes, exponents: Memory) -> list[Word]:
    """The window's base in every lane, and the table as `write_escapes` wants it.

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


def _for_rare(
    lanes: Lanes, rare: Memory, escapes: Escapes, body: Callable[[Word], None], plane: Memory
) -> None:
    """`body(entry)` for the tile's rare entries, one in each lane, the last repeated."""
    _, lane = _warp_and_lane(lanes)
    last = lanes.sub(escapes.rare_end, lanes.const(1))

    def turn(first: Word) -> None:
        body(lanes.load_element(rare, lanes.min(lanes.add(first, lane), last)))

    lanes.loop(escapes.rare_start, escapes.rare_end, WARP_LANES, turn, [plane])


def _tile_in_plane(lanes: Lanes) -> Word:
    warp, _ = _warp_and_lane(lanes)
    return lanes.mul(warp, lanes.const(TILE_ELEMS))


def _warp_and_lane(lanes: Lanes) -> tuple[Word, Word]:
    thread = lanes.lane_in_group()
    return lanes.shr(thread, 5), lanes.and_(thread, lanes.const(WARP_LANES - 1))


def _at(lanes: Lanes, index: Word, stride: int, offset: Word) -> Word:
    return lanes.add(lanes.mul(index, lanes.const(stride)), offset)


def _lane_stream(lanes: Lanes, memory: Memory, warp_nbytes: int) -> "_Stream":
    """A lane's words of memory that warps share in equal parts."""
    warp, lane = _warp_and_lane(lanes)
    offset = _at(lanes, warp, warp_nbytes, lanes.mul(lane, lanes.const(16)))
    return _Stream(lanes, memory, offset)


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
