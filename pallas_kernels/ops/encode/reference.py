"""The `xla` backend of `encode`: plain `jnp`, the same bits as `codecs.triple_bitmap`.

Three passes, because the number of patches is known only after the first:

    dense    window, codes, remainder; a 16-bit escape mask per lane; escapes per tile
    lists    each escape (the k-th set bit of the masks), into a static capacity; the table of 16
             exponents, each escape's index into it, and which are rare
    rare     those, compacted

Shapes keep the tile axes [T, 16, 256] throughout and masks are packed by `lax.reduce`: that is
what XLA on CPU turns into vector loops (an unrolled `or` of 16 slices is 3 times slower, a
compaction by cumsum over elements 10 times).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    SAMPLE_ABOVE_ELEMS,
    SAMPLE_RUN_ELEMS,
    SAMPLE_STRIDE_RUNS,
    TABLE_SIZE,
    TILE_ELEMS,
    TILE_LANES,
    TILE_ROWS,
    WINDOW_SIZE,
    FloatSpec,
    float_spec,
)
from pallas_kernels.shapes import capacity_of
from pallas_kernels.tiles import prefix_sum, to_tiles

# 32-bit counters index lanes, and patches one by one.
MAX_ELEMS = TILE_ROWS * (2**31 - 1)
MAX_PATCHES = 2**31 - 1

_ROW_OF_FIVE = np.arange(15, dtype=np.uint16).reshape(1, 3, 5, 1)
_FIVE = np.arange(5, dtype=np.uint16)[None, None, :, None] * np.uint16(3)
_THREE = np.arange(3, dtype=np.uint16)[None, :, None]

Streams = dict[str, Any]


def encode(x: jax.Array | np.ndarray) -> Streams | None:
    """Encode with exact sizes: one look at the number of escapes between the passes.

    Returns:
        streams, or None where they would not be smaller than the array.

    Raises:
        UnsupportedError: more elements than 32-bit counters reach.
    """
    spec = float_spec(x.dtype)
    _check_size(x.size)
    bits = _bits(jnp.asarray(x), spec)
    streams, mask, per_tile = _dense_jit(bits, spec)
    num_escapes = int(np.asarray(per_tile).sum(dtype=np.int64))
    dense_nbytes = sum(stream.nbytes for stream in streams.values())
    if dense_nbytes + 2 * num_escapes >= x.nbytes or num_escapes > MAX_PATCHES:
        return None
    capacity = capacity_of(num_escapes)
    lists, num_rare = _lists_jit(bits, mask, per_tile, streams["exponents"], spec, capacity)
    rare = _rare_jit(lists, capacity_of(int(num_rare)) if int(num_rare) else 0)
    return _assemble(streams, lists, rare)


def encode_static(
    x: jax.Array, patch_capacity: int, rare_capacity: int
) -> tuple[Streams, jax.Array]:
    """Encode into given capacities; the second result says whether they were too small."""
    spec = float_spec(x.dtype)
    _check_size(x.size)
    bits = _bits(x, spec)
    streams, mask, per_tile = _dense(bits, spec)
    lists, num_rare = _lists(bits, mask, per_tile, streams["exponents"], spec, patch_capacity)
    overflow = (jnp.sum(per_tile) > patch_capacity) | (num_rare > rare_capacity)
    return _assemble(streams, lists, _rare(lists, rare_capacity)), overflow


class _Lists(NamedTuple):
    """What the escapes become, in stored order, padded to a capacity K."""

    exponents: jax.Array  # uint8 [17], the base and the finished table
    offsets: jax.Array  # uint32 [T + 1]
    patches: jax.Array  # uint16 [K]
    tile: jax.Array  # int32 [K]
    position: jax.Array  # uint16 [K]
    exponent: jax.Array  # uint8 [K]
    is_rare: jax.Array  # bool [K]


def _dense(bits: jax.Array, spec: FloatSpec) -> tuple[Streams, jax.Array, jax.Array]:
    """The streams that hold something of every element, and what the lists need.

    Args:
        bits: unsigned [n], n > 0.
        spec: the float.

    Returns:
        streams: all but the lists; "exponents" holds the base alone, uint8 [1].
        mask: uint16 [T, 256], bit i of lane l: element (i, l) is outside the window.
        per_tile: int32 [T], escapes.
    """
    base = _choose_base(bits, spec)
    filler = base.astype(bits.dtype) << spec.mantissa_bits
    streams, mask = _pack_tiles(to_tiles(bits, filler), base, spec)
    streams |= {"exponents": base.astype(jnp.uint8)[None], **_byte_planes(bits, spec)}
    return streams, mask, jnp.sum(lax.population_count(mask).astype(jnp.int32), axis=1)


def _pack_tiles(tiles: jax.Array, base: jax.Array, spec: FloatSpec) -> tuple[Streams, jax.Array]:
    """The streams that hold something of every tile, and the mask of `_dense`."""
    relative = (tiles >> spec.mantissa_bits).astype(jnp.uint16) - base.astype(jnp.uint16)
    relative &= np.uint16(spec.num_exponents - 1)
    # 1 where any bit above the code is set: the carry out of adding the mask, no compare.
    high_mask = np.uint16(spec.num_exponents // WINDOW_SIZE - 1)
    escape = ((relative >> 3) + high_mask) >> np.uint16(spec.exponent_bits - 3)
    codes, mask = _pack_rows((relative & 7) & (escape - np.uint16(1)), escape)
    streams = {"codes": codes}
    sign = tiles >> (spec.width_bits - 1)
    match spec.remainder_bits:
        case 11:
            streams["remainder_low"] = _pack_three_bits(tiles & 7)
        case 4:
            rows = sign << 3 | tiles & 7
            streams["remainder"] = rows[:, :8] | rows[:, 8:] << 4
        case 3:
            streams["remainder"] = _pack_three_bits((sign << 2 | tiles & 3).astype(jnp.uint16))
    return streams, mask


def _byte_planes(bits: jax.Array, spec: FloatSpec) -> Streams:
    """The remainder streams that are whole bytes of an element, [n]."""
    match spec.remainder_bits:
        case 24:
            high = (bits >> 24) & 0x80 | (bits >> 16) & 0x7F
            low = bits.astype(jnp.uint16)
            return {"remainder": high.astype(jnp.uint8), "remainder_low": low}
        case 11:
            return {"remainder": ((bits >> 8) & 0x80 | (bits >> 3) & 0x7F).astype(jnp.uint8)}
        case 8:
            return {"remainder": ((bits >> 8) & 0x80 | bits & 0x7F).astype(jnp.uint8)}
    return {}


def _lists(
    bits: jax.Array,
    mask: jax.Array,
    per_tile: jax.Array,
    base: jax.Array,
    spec: FloatSpec,
    capacity: int,
) -> tuple[_Lists, jax.Array]:
    """Find the first `capacity` escapes and give each its table index; also how many are rare."""
    lane, row, valid = _find_escapes(mask, capacity)
    tile = lane // TILE_LANES
    field = _gather(bits, tile, row, lane % TILE_LANES) >> spec.mantissa_bits
    exponent = (field & (spec.num_exponents - 1)).astype(jnp.uint8)
    table, index, is_rare = _exponent_table(exponent, valid, base[0], spec)
    position = (lane % TILE_LANES * TILE_ROWS + row).astype(jnp.uint16)
    offsets = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(per_tile)]).astype(jnp.uint32)
    lists = _Lists(
        exponents=jnp.concatenate([base, table]),
        offsets=offsets,
        patches=jnp.where(valid, position << 4 | index, np.uint16(0)),
        tile=tile,
        position=position,
        exponent=exponent,
        is_rare=is_rare,
    )
    return lists, jnp.sum(is_rare)


def _rare(lists: _Lists, capacity: int) -> tuple[jax.Array, jax.Array]:
    """The rare escapes as (tile, position << 8 | exponent); unused places name a tile that is not
    there."""
    if not capacity:
        return jnp.zeros(0, jnp.uint32), jnp.zeros(0, jnp.uint32)
    num_patches = lists.tile.size
    at = jnp.nonzero(lists.is_rare, size=capacity, fill_value=num_patches)[0]
    tile = lists.tile.at[at].get(mode="fill", fill_value=lists.offsets.size - 1)
    entry = lists.position.astype(jnp.uint32) << 8 | lists.exponent
    return tile.astype(jnp.uint32), entry.at[at].get(mode="fill", fill_value=0)


def _assemble(streams: Streams, lists: _Lists, rare: tuple[jax.Array, jax.Array]) -> Streams:
    return streams | {
        "exponents": lists.exponents,
        "patch_offsets": lists.offsets,
        "patches": lists.patches,
        "rare_tiles": rare[0],
        "rare_entries": rare[1],
    }


_dense_jit = jax.jit(_dense, static_argnums=1)
_lists_jit = jax.jit(_lists, static_argnums=(4, 5))
_rare_jit = jax.jit(_rare, static_argnums=1)


def _choose_base(bits: jax.Array, spec: FloatSpec) -> jax.Array:
    """The window's first exponent from a histogram, by the oracle's rule: int32 []."""
    if bits.size > SAMPLE_ABOVE_ELEMS:
        group_elems = SAMPLE_RUN_ELEMS * SAMPLE_STRIDE_RUNS
        groups = bits.size // group_elems
        sample = lax.slice(bits, (0,), (groups * group_elems,)).reshape(groups, group_elems)
        bits = sample[:, :SAMPLE_RUN_ELEMS].reshape(-1)
    exponent = (bits >> spec.mantissa_bits).astype(jnp.int32) & (spec.num_exponents - 1)
    histogram = jnp.zeros(spec.num_exponents, jnp.int32).at[exponent].add(1)
    covered = jnp.convolve(histogram, np.ones(WINDOW_SIZE, np.int32), "valid")
    return jnp.argmax(covered).astype(jnp.int32)


def _find_escapes(mask: jax.Array, capacity: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Lane (over all tiles) and row of the k-th escape, int32 [K], and whether there is one, bool
    [K]."""
    words = mask.reshape(-1)
    count = lax.population_count(words).astype(jnp.int32)
    total = prefix_sum(count)
    start = total - count
    # Mark where each word's escapes start in the list, then carry the mark forward.
    mark = jnp.where(words != 0, start, capacity)
    lane = jnp.arange(words.size, dtype=jnp.int32)
    at = jnp.zeros(capacity, jnp.int32).at[mark].set(lane, mode="drop", unique_indices=False)
    at = lax.cummax(at) if capacity else at
    k = jnp.arange(capacity, dtype=jnp.int32)
    row = _nth_set_bit(words[at], (k - start[at]).astype(jnp.uint16))
    return at, row.astype(jnp.int32), k < (total[-1] if words.size else 0)


def _nth_set_bit(word: jax.Array, rank: jax.Array) -> jax.Array:
    """Position of set bit number `rank` of each word, by halving: uint16 [K]."""
    position = jnp.zeros_like(rank)
    for half in (8, 4, 2, 1):
        low = word & np.uint16((1 << half) - 1)
        in_low = lax.population_count(low)
        upper = rank >= in_low
        position = jnp.where(upper, position + np.uint16(half), position)
        rank = jnp.where(upper, rank - in_low, rank)
        word = jnp.where(upper, word >> half, low)
    return position


def _exponent_table(
    exponent: jax.Array, valid: jax.Array, base: jax.Array, spec: FloatSpec
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The oracle's table: uint8 [16]; each escape's index, uint16 [K]; which are rare, bool [K]."""
    bins = jnp.where(valid, exponent.astype(jnp.int32), spec.num_exponents)
    counts = jnp.zeros(spec.num_exponents, jnp.int32).at[bins].add(1, mode="drop")
    by_count = jnp.argsort(-counts, stable=True)[:TABLE_SIZE]
    last = jnp.arange(TABLE_SIZE) == TABLE_SIZE - 1
    too_many = jnp.sum(counts > 0) > TABLE_SIZE
    unused = (counts[by_count] == 0) | (last & too_many)
    table = jnp.where(unused, base, by_count).astype(jnp.uint8)
    # Index of every exponent, the last one for those without it.
    slot = jnp.arange(TABLE_SIZE, dtype=jnp.uint16)
    known = jnp.full(spec.num_exponents + 1, TABLE_SIZE, jnp.uint16)
    known = known.at[jnp.where(unused, spec.num_exponents, by_count)].set(slot)
    found = known[exponent]
    is_rare = valid & (found == TABLE_SIZE)
    return table, jnp.minimum(found, np.uint16(TABLE_SIZE - 1)), is_rare


def _gather(bits: jax.Array, tile: jax.Array, row: jax.Array, lane: jax.Array) -> jax.Array:
    """Elements of tiles; through the flat array while its numbers fit into 32 bits."""
    if bits.size < 2**31:
        return bits.at[tile * TILE_ELEMS + row * TILE_LANES + lane].get(mode="clip")
    return to_tiles(bits)[tile, row, lane]


def _pack_rows(codes: jax.Array, flags: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`format.pack_rows` of codes, uint16 [T, 3, 256], and one flag an element as uint16 [T, 256].

    One variadic reduce makes both in one pass over the elements.
    """
    parts = [x[:, :15].reshape(-1, 3, 5, TILE_LANES) for x in (codes, flags)]
    words, masks = lax.reduce(
        (parts[0] << _FIVE, parts[1] << _ROW_OF_FIVE),
        (np.uint16(0), np.uint16(0)),
        lambda a, b: (a[0] | b[0], a[1] | b[1]),
        (2,),
    )
    words = words | (((codes[:, 15:] >> _THREE) & 1) << 15)
    return words, masks[:, 0] | masks[:, 1] | masks[:, 2] | flags[:, 15] << 15


def _pack_three_bits(rows: jax.Array) -> jax.Array:
    """`format.pack_rows`: uint16 [T, 16, 256] to [T, 3, 256]."""
    words = rows[:, :15].reshape(-1, 3, 5, TILE_LANES) << _FIVE
    words = lax.reduce(words, np.uint16(0), lax.bitwise_or, (2,))
    return words | (((rows[:, 15:] >> _THREE) & 1) << 15)


def _bits(x: jax.Array, spec: FloatSpec) -> jax.Array:
    return lax.bitcast_convert_type(x, spec.bits_dtype).reshape(-1)


def _check_size(num_elems: int) -> None:
    if num_elems > MAX_ELEMS:
        raise UnsupportedError(f"a tensor must have at most {MAX_ELEMS} elements", got=num_elems)
