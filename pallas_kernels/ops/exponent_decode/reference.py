"""`exponent_decode` in plain `jnp`: the `xla` backend.

Shapes as in the encoder: four axes throughout, only the last vectorised. The codes are unpacked by
concatenating 5 + 5 + 5 + 1 rows, and all arithmetic is done before the concatenation (the design
note has the measurements).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pallas_kernels.format.slot_layout import FAR_ENTRY_NBYTES, SlotLayout
from pallas_kernels.format.slot_words import exchange_zero
from pallas_kernels.payload import ExponentPayload

ROW_SHIFT = np.arange(16, dtype=np.uint16)[None, :, None, None]
UNITS = np.arange(16, dtype=np.uint16)[None, None, :, None]


@jax.jit
def exponent_decode(payload: ExponentPayload) -> Array:
    """Decode `payload`; see `api.exponent_decode`."""
    layout = payload.layout
    if layout.num_elems == 0:
        return jnp.zeros(payload.shape, payload.dtype)
    words = decode_words(payload.streams, layout)[: layout.num_elems]
    return lax.bitcast_convert_type(words, payload.dtype).reshape(payload.shape)


def decode_words(streams: dict[str, Array], layout: SlotLayout) -> Array:
    """Decode all words, padding included.

    Args:
        streams: the arrays that `layout.streams()` lists.
        layout: the sizes.

    Returns:
        uint16 or uint32 [padded_elems].
    """
    base, exponent, position = split_side(streams["side"], layout)
    place = base.astype(layout.word_dtype)[..., None] << layout.mantissa_bits
    escapes = _slot_masks(streams["slots"])[:, None]
    remainder = streams["remainder"].reshape(layout.tile_shape)

    parts = []
    for rows in _row_parts(layout):
        code = _unpack_rows(streams["code"], layout.code_bits, rows)
        top = _top(remainder[:, rows], code, escapes, rows, layout)
        part = place[:, rows]
        parts.append(exchange_zero(_with_low(top, streams, rows, layout) + part, part, layout))
    words = jnp.concatenate(parts, axis=1).reshape(-1)
    return complete_far(words, base, exponent, position, layout)


def complete_far(
    words: Array, base: Array, exponent: Array, position: Array, layout: SlotLayout
) -> Array:
    """Complete the listed words, which so far have the exponent that their code alone says.

    Adds the difference of the two exponents, which needs no word: to read words and to write them
    in one program costs a copy. On integers: a scatter of floats may pass through a wider float on
    the CPU and quiet a NaN. Unused entries lie past the end and are dropped.
    """
    place = base.reshape(-1).at[position // layout.run_elems].get(mode="clip")
    place = place.astype(layout.word_dtype) << layout.mantissa_bits

    def word(exponent: Array) -> Array:
        relative = exponent.astype(layout.word_dtype) << layout.mantissa_bits
        return exchange_zero(relative + place, place, layout)

    difference = word(exponent) - word(exponent & np.uint8(layout.window - 1))
    return words.at[position].add(difference, mode="drop")


def split_side(side: Array, layout: SlotLayout) -> tuple[Array, Array, Array]:
    """Bases uint8 [T, 16, 16], relative exponents uint8 [K], positions int32 [K]."""
    runs, capacity = layout.num_runs, layout.far_capacity
    base = side[:runs].reshape(layout.num_tiles, 16, 16)
    exponent = side[runs : runs + capacity]
    position = side[runs + capacity : runs + FAR_ENTRY_NBYTES * capacity].reshape(capacity, 4)
    return base, exponent, lax.bitcast_convert_type(position, jnp.int32)


def _slot_masks(slots: Array) -> Array:
    """Rebuild the masks of near escapes: uint8 [T, C, L] positions -> uint16 [T, J, L] bits."""
    slots = slots.astype(jnp.uint16)
    ascending = (slots[:, 0] <= slots[:, 1])[:, None]
    bit = jnp.where(ascending, np.uint16(1) << (slots & np.uint16(15)), np.uint16(0))
    # All ones where the slot lies in unit j, without a compare: 0 - 1 is the only one to wrap.
    same_unit = np.uint16(0) - ((((slots >> 4)[:, :, None] ^ UNITS) - np.uint16(1)) >> 15)
    return lax.reduce(bit[:, :, None] & same_unit, np.uint16(0), lax.bitwise_or, (1,))


def _row_parts(layout: SlotLayout) -> list[slice]:
    """The rows of a unit in parts, each of which lies in one word of every packed stream."""
    if layout.code_bits == 3:
        return [slice(0, 5), slice(5, 10), slice(10, 15), slice(15, 16)]
    if layout.exponent_bits == 5:  # codes of 4 bits beside mantissas of 3
        cuts = (0, 4, 5, 8, 10, 12, 15, 16)
        return [slice(a, b) for a, b in itertools.pairwise(cuts)]
    return [slice(row, row + 4) for row in (0, 4, 8, 12)]


def _unpack_rows(packed: Array, bits: int, rows: slice) -> Array:
    """Some rows of a unit, all in one word: uint16 [T, bits, J, L] -> uint16 [T, rows, J, L]."""
    per_word = 16 // bits
    if rows.start < bits * per_word:
        word = rows.start // per_word
        first = rows.start - word * per_word
        shift = np.arange(first, first + rows.stop - rows.start, dtype=np.uint16) * np.uint16(bits)
        return (packed[:, word : word + 1] >> shift[None, :, None, None]) & np.uint16(2**bits - 1)
    top_bits = packed >> 15  # row 15 of 3 bits
    return top_bits[:, :1] | top_bits[:, 1:2] << 1 | top_bits[:, 2:] << 2


def _top(byte: Array, code: Array, escapes: Array, rows: slice, layout: SlotLayout) -> Array:
    """Sign, exponent and leading mantissa bits of w: the upper 16 bits of the word."""
    mantissa = 15 - layout.exponent_bits
    escape = (escapes >> ROW_SHIFT[:, rows]) & np.uint16(1)
    # Just outside the window: code 0 is one window up, every other code one window down.
    up, down = layout.window << mantissa, 0x8000 - (layout.window << mantissa)
    is_zero = (code - np.uint16(1)) >> 15
    step = is_zero * np.uint16((up - down) % 0x10000) + np.uint16(down)
    byte = byte.astype(jnp.uint16)
    fraction = (byte & np.uint16(0x7F)) << (mantissa - 7)
    return ((byte & np.uint16(0x80)) << 8) + fraction + (code << mantissa) + step * escape


def _with_low(top: Array, streams: dict[str, Array], rows: slice, layout: SlotLayout) -> Array:
    """The whole words of some rows: the upper 16 bits, and the low mantissa bits if any."""
    if layout.word_bits == 32:
        low = streams["remainder_low"].reshape(layout.tile_shape)[:, rows]
        return (top.astype(jnp.uint32) << 16) | low.astype(jnp.uint32)
    if layout.exponent_bits == 5:
        return top | _unpack_rows(streams["remainder_low"], 3, rows)
    return top
