"""`exponent_encode` in plain `jnp`: the `xla` backend, equal to the NumPy oracle leaf by leaf.

The shapes are what makes it fast on CPU, and each was measured (docs/design/0003):

- the four axes [T, I, J, L] stay apart from input to output; only L, the last, is vectorised;
- bits are packed with `lax.reduce` over a middle axis, several results in one variadic reduce;
- what several passes need ends in a reduce, past which XLA does not fuse;
- no compare on the elements: a carry into bit 15 says "not zero".
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pallas_kernels.format.slot_layout import SlotLayout
from pallas_kernels.format.slot_words import exchange_zero
from pallas_kernels.ops.exponent_encode.base_choice import choose_base
from pallas_kernels.ops.exponent_encode.far_list import list_far, select_bit
from pallas_kernels.payload import ExponentConfig, ExponentPayload

ROW_SHIFT = np.arange(16, dtype=np.uint16)[None, :, None, None]
UPTO = np.triu(np.full((16, 16), 0xFFFF, np.uint16))[None, :, :, None]  # [.., k, j, ..]: k <= j


@functools.partial(jax.jit, static_argnames="config")
def exponent_encode(x: Array, config: ExponentConfig) -> ExponentPayload:
    """Encode `x`; see `api.exponent_encode`."""
    layout = config.layout(x.dtype, x.size)
    if x.size == 0:
        streams = {name: jnp.zeros(s, d) for name, (d, s) in layout.streams().items()}
    else:
        words = lax.bitcast_convert_type(x, layout.word_dtype).reshape(-1)
        words, base = _pad(words, layout)
        streams = encode_words(words, base, layout)
    return ExponentPayload(streams=streams, shape=x.shape, dtype=x.dtype, config=config)


def encode_words(words: Array, base: Array, layout: SlotLayout) -> dict[str, Array]:
    """Encode padded words with given bases.

    Args:
        words: uint16 or uint32 [padded_elems].
        base: uint8 [T, 16, 16].
        layout: the sizes.

    Returns:
        The arrays that `layout.streams()` lists.
    """
    mantissa = layout.mantissa_bits
    place = base.astype(layout.word_dtype)[..., None] << mantissa
    relative = exchange_zero(words.reshape(layout.tile_shape), place, layout) - place
    # The 16 bits that hold sign and exponent; all of them but for float32.
    top = relative if layout.word_bits == 16 else (relative >> 16).astype(jnp.uint16)
    top_mantissa = 15 - layout.exponent_bits

    streams = _remainder(relative, top, layout)
    code = (top >> top_mantissa) & np.uint16(layout.window - 1)
    streams["code"] = _pack_rows(code, layout.code_bits)
    near, far = _escape_masks(relative, layout)
    num_upto = _prefix_sum(lax.population_count(near))
    streams["slots"] = _fill_slots(near, num_upto, layout.num_slots)
    streams["side"] = list_far(words, base, near, far, num_upto, layout)
    return streams


def _pad(words: Array, layout: SlotLayout) -> tuple[Array, Array]:
    """Fill the last tile so that w = 0 there, and choose the bases."""
    num_pad = layout.padded_elems - layout.num_elems
    if num_pad == 0:
        return words, choose_base(words, layout)
    base = choose_base(jnp.pad(words, (0, num_pad)), layout)
    # In runs of padding alone w = 0 is u = 0: their base is 0, or zero is in every window. One run
    # may hold data and padding.
    num_mixed = -layout.num_elems % layout.run_elems
    place = base.reshape(-1)[layout.num_elems // layout.run_elems].astype(words.dtype)
    place = place << layout.mantissa_bits
    fill = jnp.broadcast_to(exchange_zero(place, place, layout), num_mixed)
    # Whole tiles are joined to the last one as tiles, which is a copy; joining flat arrays asks of
    # every element where it comes from.
    tile_elems = layout.padded_elems // layout.num_tiles
    num_whole = layout.num_elems // tile_elems * tile_elems
    zeros = jnp.zeros(num_pad - num_mixed, words.dtype)
    last = jnp.concatenate([words[num_whole:], fill, zeros])
    tiles = [words[:num_whole].reshape(-1, tile_elems), last.reshape(-1, tile_elems)]
    return jnp.concatenate(tiles).reshape(-1), base


def _remainder(relative: Array, top: Array, layout: SlotLayout) -> dict[str, Array]:
    """Sign and mantissa of w: a byte plane, and the low mantissa bits where there are more."""
    if layout.exponent_bits == 5:
        byte = (top >> 8) & np.uint16(0x80) | (top >> 3) & np.uint16(0x7F)
    else:
        byte = (top >> 8) & np.uint16(0x80) | top & np.uint16(0x7F)
    streams = {"remainder": byte.astype(jnp.uint8).reshape(-1)}
    if layout.word_bits == 32:
        streams["remainder_low"] = relative.astype(jnp.uint16).reshape(-1)
    elif layout.exponent_bits == 5:
        streams["remainder_low"] = _pack_rows(top & np.uint16(7), 3)
    return streams


def _pack_rows(rows: Array, bits: int) -> Array:
    """Pack rows of 3 bits, five a word and one bit each of row 15, or of 4 bits, four a word.

    Args:
        rows: uint16 [T, I, J, L], below 2**bits.
        bits: 3 or 4.

    Returns:
        uint16 [T, bits, J, L].
    """
    tiles, _, units, run = rows.shape
    per_word = 16 // bits
    whole = rows[:, : bits * per_word].reshape(tiles, bits, per_word, units, run)
    shift = (np.arange(per_word, dtype=np.uint16) * np.uint16(bits))[None, None, :, None, None]
    packed = lax.reduce(whole << shift, np.uint16(0), lax.bitwise_or, (2,))
    if bits == 4:
        return packed
    last = (rows[:, 15:] >> ROW_SHIFT[:, :3]) & np.uint16(1)
    return packed | last << 15


def _escape_masks(relative: Array, layout: SlotLayout) -> tuple[Array, Array]:
    """Near and far escapes as bits of their row: words [T, I, J, L] -> 2 x uint16 [T, J, L].

    All in the width of the word: a float32 pass that narrows before it reduces takes three times
    as long. And eight rows at a time: a body that XLA does not unroll whole is not vectorised.
    """
    tiles, _, units, run = relative.shape
    relative = relative.reshape(tiles, 2, 8, units, run)
    word, mantissa, top_bit = layout.word_dtype.type, layout.mantissa_bits, layout.word_bits - 1
    row = np.arange(16, dtype=layout.word_dtype).reshape(1, 2, 8, 1, 1)
    window = layout.window
    beyond_window = word((1 << top_bit) - (window << mantissa))  # exponent bits, 0 in 0..W - 1
    beyond_near = word((1 << top_bit) - (2 * window << mantissa))  # and in 0..2 W - 1
    escape = ((relative & beyond_window) + beyond_window) >> top_bit << row
    shifted = relative + word(window - 1 << mantissa)  # near and window become 0..2 W - 1
    far = ((shifted & beyond_near) + beyond_near) >> top_bit << row
    for axis in (2, 1):
        escape, far = lax.reduce(
            (escape, far), (word(0), word(0)), lambda a, b: (a[0] | b[0], a[1] | b[1]), (axis,)
        )
    return (escape & ~far).astype(jnp.uint16), far.astype(jnp.uint16)


def _prefix_sum(counts: Array) -> Array:
    """Inclusive sums over the units of a group: uint16 [T, J, L] -> the same."""
    return lax.reduce(counts[:, :, None] & UPTO, np.uint16(0), lax.add, (1,))


def _fill_slots(near: Array, num_upto: Array, num_slots: int) -> Array:
    """Positions of the first C near escapes of each group: uint16 [T, J, L] -> uint8 [T, C, L]."""
    slot = np.arange(num_slots, dtype=np.uint16)[None, :, None]
    total = num_upto[:, 15][:, None]
    rank = jnp.where(slot < total, slot, np.uint16(0))  # an unused slot repeats the first
    unit = jnp.zeros_like(rank)
    before = jnp.zeros_like(rank)
    word = jnp.broadcast_to(near[:, 0][:, None], rank.shape)
    for j in range(15):
        upto = num_upto[:, j][:, None]
        past = upto <= rank
        unit = jnp.where(past, np.uint16(j + 1), unit)
        before = jnp.where(past, upto, before)
        word = jnp.where(past, near[:, j + 1][:, None], word)
    position = unit << 4 | select_bit(word, rank - before)
    none = np.array(slot == 0, np.uint16)  # 1, 0, 0, ..: descending says that there is none
    return jnp.where(total == 0, none, position).astype(jnp.uint8)
