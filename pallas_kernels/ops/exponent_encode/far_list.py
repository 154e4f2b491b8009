"""The far list: escapes that no slot holds, with position and relative exponent.

Found in three steps, each over fewer things: groups that own such an escape, its units, its
elements. A step is one popcount, one cumulative sum and one scatter of marks that a cumulative
maximum carries forward; there is no sort and no scan over the elements.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pallas_kernels.format.slot_layout import SlotLayout
from pallas_kernels.format.slot_words import exchange_zero

ROWS = np.arange(16, dtype=np.uint16)


def list_far(
    words: Array, base: Array, near: Array, far: Array, num_upto: Array, layout: SlotLayout
) -> Array:
    """Build the side stream: bases, far list, count.

    Args:
        words: uint16 or uint32 [padded_elems].
        base: uint8 [T, 16, 16].
        near: uint16 [T, J, L], a bit for each near escape of a unit.
        far: uint16 [T, J, L], likewise.
        num_upto: uint16 [T, J, L], near escapes of the group in units 0..j.
        layout: the sizes.

    Returns:
        uint8 [side_nbytes].
    """
    slots = np.uint16(layout.num_slots)
    needs = (far != 0) | ((num_upto > slots) & (near != 0))
    unit, unit_used = _first_units(needs, layout)
    listed = _listed_rows(near, far, num_upto, unit, unit_used, slots)
    element, used = _first_elements(listed, unit, layout)
    beyond = jnp.maximum(num_upto[:, 15], slots) - slots
    per_group = lax.reduce(lax.population_count(far), np.uint16(0), lax.add, (1,)) + beyond
    count = per_group.astype(jnp.int32).sum()
    return _side(words, base, element, used, count, layout)


def list_marked(
    words: Array, base: Array, num_listed: Array, listed: Array, layout: SlotLayout
) -> Array:
    """Build the side stream from marks of the elements to be listed.

    Args:
        words: uint16 or uint32 [num_elems].
        base: uint8 [T, 16, 16].
        num_listed: uint16 [G], marks of each group.
        listed: uint16 [G, 16], bit i of word j for place 16 j + i; anything in groups without.
        layout: the sizes.

    Returns:
        uint8 [side_nbytes].
    """
    num_bits = num_listed.astype(jnp.int32)
    group, rank, used = _owners(num_bits, layout.far_capacity)
    marks = listed[group]
    upto = jnp.cumsum(lax.population_count(marks).astype(jnp.int32), axis=1)
    j = jnp.minimum((upto <= rank[:, None]).sum(axis=1, dtype=jnp.int32), 15)
    word = jnp.take_along_axis(marks, j[:, None], axis=1)[:, 0]
    before = jnp.take_along_axis(upto, j[:, None], axis=1)[:, 0]
    row = select_bit(word, rank - before + lax.population_count(word).astype(jnp.int32))
    run = layout.run_elems
    element = ((group // run * 16 + row) * 16 + j) * run + group % run
    count = num_bits.sum(dtype=jnp.int32)
    return _side(words, base, element, used, count, layout)


def _side(
    words: Array, base: Array, element: Array, used: Array, count: Array, layout: SlotLayout
) -> Array:
    """Lay out bases, the listed elements and their true number as bytes."""
    run_base = base.reshape(-1).at[element // layout.run_elems].get(mode="clip")
    place = run_base.astype(words.dtype) << layout.mantissa_bits
    relative = exchange_zero(words.at[element].get(mode="clip"), place, layout) - place
    exponent = (relative >> layout.mantissa_bits) & (layout.num_exponents - 1)
    exponent = _computed_once(jnp.where(used, exponent, 0).astype(jnp.uint8))
    position = _computed_once(jnp.where(used, element, layout.padded_elems))
    return jnp.concatenate([base.reshape(-1), exponent, _bytes(position), _bytes(count[None])])


def select_bit(word: Array, rank: Array) -> Array:
    """Position of set bit number `rank` of a 16-bit word, by halving: integers of rank's dtype."""
    position = jnp.zeros_like(rank)
    for half in (8, 4, 2, 1):
        low = word & np.uint16((1 << half) - 1)
        num_low = lax.population_count(low).astype(rank.dtype)
        up = rank >= num_low
        position = jnp.where(up, position + rank.dtype.type(half), position)
        rank = jnp.where(up, rank - num_low, rank)
        word = jnp.where(up, word >> half, low)
    return position


def _first_units(needs: Array, layout: SlotLayout) -> tuple[Array, Array]:
    """Number and validity of the first K units in need: bool [T, J, L] -> int32 [K], bool [K]."""
    rows = needs.astype(jnp.uint16) << ROWS[None, :, None]
    word = lax.reduce(rows, np.uint16(0), lax.bitwise_or, (1,)).reshape(-1)  # one a group
    group, rank, used = _owners(lax.population_count(word).astype(jnp.int32), layout.far_capacity)
    j = select_bit(word[group], rank)
    run = layout.run_elems
    return (group // run * 16 + j) * run + group % run, used


def _listed_rows(
    near: Array, far: Array, num_upto: Array, unit: Array, unit_used: Array, slots: np.uint16
) -> Array:
    """Rows of each unit that the list takes, as bits: far, and near from rank C on: uint16 [K]."""
    near, far, upto = (a.reshape(-1)[unit] for a in (near, far, num_upto))
    before = upto - lax.population_count(near)
    below = near[:, None] & ((np.uint16(1) << ROWS) - np.uint16(1))[None]
    rank = before[:, None] + lax.population_count(below)
    beyond = (rank >= slots).astype(jnp.uint16) << ROWS[None]
    beyond = lax.reduce(beyond, np.uint16(0), lax.bitwise_or, (1,))
    return jnp.where(unit_used, far | near & beyond, np.uint16(0))


def _first_elements(listed: Array, unit: Array, layout: SlotLayout) -> tuple[Array, Array]:
    """Number and validity of the first K listed elements: int32 [K], bool [K]."""
    owner, rank, used = _owners(lax.population_count(listed).astype(jnp.int32), layout.far_capacity)
    row = select_bit(listed[owner], rank)
    per_row = 16 * layout.run_elems
    tile, place = unit[owner] // per_row, unit[owner] % per_row
    return (tile * 16 + row) * per_row + place, used


def _owners(num_bits: Array, capacity: int) -> tuple[Array, Array, Array]:
    """Whose is set bit number k of all words, and the how many-th of its word.

    Args:
        num_bits: int32 [W], set bits of each.
        capacity: K.

    Returns:
        int32 [K] index of the word; int32 [K] rank of the bit in it; bool [K], whether there is
        a k-th bit at all.
    """
    upto = jnp.cumsum(num_bits)
    k = jnp.arange(capacity, dtype=jnp.int32)
    start = jnp.where(num_bits > 0, upto - num_bits, capacity)
    index = np.arange(num_bits.size, dtype=np.int32)
    marks = jnp.zeros(capacity, jnp.int32).at[start].set(index, mode="drop")
    owner = lax.cummax(marks)
    return owner, k - (upto[owner] - num_bits[owner]), k < upto[-1]


def _computed_once(values: Array) -> Array:
    """Return `values` [m] by way of a reduce, past which XLA does not fuse.

    Otherwise all steps of the list are repeated for every byte of it: twice the time of the list.
    """
    pair = jnp.stack([values, jnp.zeros_like(values)])
    return lax.reduce(pair, values.dtype.type(0), lax.bitwise_or, (0,))


def _bytes(values: Array) -> Array:
    """Little-endian bytes: int32 [m] -> uint8 [4 m]."""
    return lax.bitcast_convert_type(values, jnp.uint8).reshape(-1)
