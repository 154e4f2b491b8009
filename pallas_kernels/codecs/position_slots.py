"""Position slots, the exponent code for the wire, plain and slow: to be read, and the oracle.

The code, in words (`docs/wire-format.md` is normative, `format.slot_layout` has the axis letters):

    word     w = u - base * 2**mantissa_bits, modulo the word: a bijection of the bits u of a float,
             so -0, NaN, infinities and a wrong base need no case of their own
             (with codes of 4 bits, the exponents 0 and base change places in u first, so that
             zero is in every window)
    code     the low 3 (or 4) bits of w's exponent field; the others are 0 inside the window of
             W = 8 (or 16) exponents
    near     relative exponents 1 - W..-1 and W, just outside: the code alone tells which one it
             is, so a *slot* only has to say where it is
    far      every other exponent; far elements, and near ones that found no slot in their group,
             are listed with their position and relative exponent

A payload holds any input whose list fits; `num_far` says whether it did.
"""

from collections.abc import Mapping

import numpy as np

from pallas_kernels.format.slot_layout import (
    GROUP_ELEMS,
    MEAN_TO_BASE_1024,
    NUM_LIFTS,
    SAMPLE_ELEMS,
    TYPICAL_RUNS,
    SlotLayout,
)

Streams = dict[str, np.ndarray]


def choose_base(words: np.ndarray, layout: SlotLayout) -> np.ndarray:
    """Choose the base of every run from the exponents of its first elements.

    Args:
        words: uint16 or uint32 [num_elems], the bits of the floats.
        layout: the sizes.

    Returns:
        uint8 [T, 16, 16], the base of run (t, i, j): the first exponent of its window. A run with
        nothing but zeros, subnormals and non-finite values in its sample gets 0; with codes of
        4 bits, where zero is in every window, the mean base of the other runs.
    """
    base = np.zeros(layout.num_runs, np.uint8)
    samples = [_sample_exponents(words, run, layout) for run in range(layout.num_runs)]
    misses = np.zeros(NUM_LIFTS, np.int64)
    for run, exponents in enumerate(samples):
        if exponents.size:
            scaled = (
                int(exponents.sum()) * 1024 - MEAN_TO_BASE_1024[layout.code_bits] * exponents.size
            )
            base[run] = max(0, scaled // (1024 * exponents.size))
            for lift in range(NUM_LIFTS):
                place = exponents - base[run] - lift
                outside = (place < layout.lowest_code) | (place >= layout.window)
                misses[lift] += np.count_nonzero(outside)
    known = np.array([exponents.size > 0 for exponents in samples], bool)
    if layout.code_bits == 4:
        typical = base[:TYPICAL_RUNS][known[:TYPICAL_RUNS]]
        base[~known] = int(typical.sum(dtype=np.int64)) // max(typical.size, 1)
        known[:] = True
    base[known] += np.uint8(misses.argmin())
    return base.reshape(layout.num_tiles, 16, 16)


def encode(words: np.ndarray, layout: SlotLayout, base: np.ndarray | None = None) -> Streams:
    """Encode the bits of a tensor.

    Args:
        words: uint16 or uint32 [num_elems], the bits of the floats in memory order.
        layout: the sizes.
        base: uint8 [T, 16, 16]; chosen when None. A bad one costs space, never bits.

    Returns:
        The arrays that `layout.streams()` lists.
    """
    base = choose_base(words, layout) if base is None else base
    relative = np.zeros(layout.padded_elems, layout.word_dtype)  # padding is w = 0
    place = _base_words(base, layout)[: layout.num_elems]
    relative[: layout.num_elems] = _exchange_zero(words, place, layout) - place
    exponent = relative >> layout.mantissa_bits & layout.num_exponents - 1

    streams = _remainder(relative, layout)
    streams["code"] = pack_rows(exponent & layout.window - 1, layout.code_bits, layout)
    slots, far = _escapes(exponent.astype(np.int64), layout)
    streams["slots"] = slots
    streams["side"] = _side(base, far, exponent, layout)
    return streams


def decode(streams: Mapping[str, np.ndarray], layout: SlotLayout) -> np.ndarray:
    """Give back the bits that `encode` was given.

    Args:
        streams: the arrays that `layout.streams()` lists.
        layout: the sizes.

    Returns:
        uint16 or uint32 [num_elems]. Meaningless where `num_far` exceeds the capacity.
    """
    exponent = unpack_rows(streams["code"], layout.code_bits, layout).astype(np.int64)
    position = _slot_positions(streams["slots"], layout)
    code = exponent[position]
    below = layout.num_exponents - layout.window + code
    exponent[position] = np.where(code == 0, layout.window, below)

    base, listed, position, _ = split_side(streams["side"], layout)
    used = position < layout.padded_elems
    exponent[position[used]] = listed[used]

    words = _join(streams, exponent.astype(layout.word_dtype), layout)
    place = _base_words(base, layout)
    return _exchange_zero(words + place, place, layout)[: layout.num_elems]


def pack_rows(values: np.ndarray, bits: int, layout: SlotLayout) -> np.ndarray:
    """Pack the 16 rows of a unit into `bits` words.

    Of 3 bits, word k has rows 5k..5k+4 from its lowest bit up, and bit k of row 15 on top; of 4
    bits, rows 4k..4k+3.

    Args:
        values: integers below 2**bits [padded_elems].
        bits: 3 or 4.
        layout: the sizes.

    Returns:
        uint16 [T, bits, J, L].
    """
    rows = values.reshape(layout.tile_shape).astype(np.uint16)
    packed = np.zeros((layout.num_tiles, bits, 16, layout.run_elems), np.uint16)
    for row, word, shift in _places(bits):
        packed[:, word] |= rows[:, row] << np.uint16(shift)
    if bits == 3:
        for word in range(3):
            packed[:, word] |= (rows[:, 15] >> np.uint16(word) & np.uint16(1)) << np.uint16(15)
    return packed


def unpack_rows(packed: np.ndarray, bits: int, layout: SlotLayout) -> np.ndarray:
    """Undo `pack_rows`: uint16 [T, bits, J, L] -> uint16 [padded_elems]."""
    rows = np.zeros(layout.tile_shape, np.uint16)
    for row, word, shift in _places(bits):
        rows[:, row] = packed[:, word] >> np.uint16(shift) & np.uint16(2**bits - 1)
    if bits == 3:
        for word in range(3):
            rows[:, 15] |= packed[:, word] >> np.uint16(15) << np.uint16(word)
    return rows.reshape(-1)


def split_side(
    side: np.ndarray, layout: SlotLayout
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Take the side stream apart.

    Args:
        side: uint8 [side_nbytes].
        layout: the sizes.

    Returns:
        base uint8 [T, 16, 16], relative exponents uint8 [K], positions uint32 [K], and num_far.
    """
    runs, capacity = layout.num_runs, layout.far_capacity
    base, exponent, position, count = np.split(side, np.cumsum([runs, capacity, 4 * capacity]))
    return (
        base.reshape(layout.num_tiles, 16, 16),
        exponent,
        np.frombuffer(position.tobytes(), "<u4"),
        int(np.frombuffer(count.tobytes(), "<i4")[0]),
    )


def _sample_exponents(words: np.ndarray, run: int, layout: SlotLayout) -> np.ndarray:
    """Biased exponents of the normal numbers among a run's first elements: int64 [any]."""
    start = run * layout.run_elems
    sample = words[start : start + min(SAMPLE_ELEMS, layout.run_elems)].astype(np.int64)
    largest = layout.num_exponents - 1
    exponents = sample >> layout.mantissa_bits & largest
    return exponents[(exponents > 0) & (exponents < largest)]


def _places(bits: int) -> list[tuple[int, int, int]]:
    """(row, word, shift) of every row that lies whole in one word."""
    per_word = 16 // bits
    return [(row, row // per_word, row % per_word * bits) for row in range(per_word * bits)]


def _side(
    base: np.ndarray, far: np.ndarray, exponent: np.ndarray, layout: SlotLayout
) -> np.ndarray:
    """Lay out bases, far list and count as bytes; unused entries point past the end."""
    far_exponent = np.zeros(layout.far_capacity, np.uint8)
    position = np.full(layout.far_capacity, layout.padded_elems, "<u4")
    listed = far[: layout.far_capacity]
    far_exponent[: listed.size] = exponent[listed]
    position[: listed.size] = listed
    count = np.array([far.size], "<i4")
    parts = [base, far_exponent, position, count]
    return np.frombuffer(b"".join(part.tobytes() for part in parts), np.uint8)


def _escapes(exponent: np.ndarray, layout: SlotLayout) -> tuple[np.ndarray, np.ndarray]:
    """Give near escapes their slots and list all others.

    Args:
        exponent: int64 [padded_elems], relative, modulo 2**exponent_bits.
        layout: the sizes.

    Returns:
        slots uint8 [T, C, L]; and the element numbers of the far list, in order of group, then
        unit, then row.
    """
    near, far = (group_order(mask, layout) for mask in near_and_far(exponent, layout))
    slots = np.zeros((layout.num_tiles * layout.run_elems, layout.num_slots), np.uint8)
    for group in range(near.shape[0]):
        place = np.flatnonzero(near[group])
        far[group, place[layout.num_slots :]] = True
        place = place[: layout.num_slots]
        if place.size:
            slots[group] = place[0]  # an unused slot repeats the first
            slots[group, : place.size] = place
        else:
            slots[group, 0] = 1  # descending: none
    by_tile = slots.reshape(layout.num_tiles, layout.run_elems, layout.num_slots).swapaxes(1, 2)
    numbers = group_order(np.arange(layout.padded_elems), layout)
    return np.ascontiguousarray(by_tile), numbers[far]


def near_and_far(exponent: np.ndarray, layout: SlotLayout) -> tuple[np.ndarray, np.ndarray]:
    """Classify relative exponents: near is 1 - W..-1 and W, far is neither near nor 0..W - 1."""
    near = (exponent == layout.window) | (exponent > layout.num_exponents - layout.window)
    far = (exponent >= layout.window) & ~near
    return near, far


def group_order(values: np.ndarray, layout: SlotLayout) -> np.ndarray:
    """View elements as [groups, 256]: place j * 16 + i of group (t, l) is element (t, i, j, l)."""
    grouped = values.reshape(layout.tile_shape).transpose(0, 3, 2, 1)
    return np.ascontiguousarray(grouped).reshape(layout.num_tiles * layout.run_elems, GROUP_ELEMS)


def _slot_positions(slots: np.ndarray, layout: SlotLayout) -> np.ndarray:
    """Element numbers of all near escapes that have a slot, each once."""
    per_group = slots.swapaxes(1, 2).reshape(-1, layout.num_slots)
    numbers = group_order(np.arange(layout.padded_elems), layout)
    used = per_group[:, 0] <= per_group[:, 1]
    return np.unique(np.take_along_axis(numbers[used], per_group[used].astype(np.int64), axis=1))


def _base_words(base: np.ndarray, layout: SlotLayout) -> np.ndarray:
    """The base of every padded element, in its place in the word."""
    words = base.reshape(-1).astype(layout.word_dtype) << layout.word_dtype.type(
        layout.mantissa_bits
    )
    return np.repeat(words, layout.run_elems)


def _exchange_zero(words: np.ndarray, place: np.ndarray, layout: SlotLayout) -> np.ndarray:
    """With codes of 4 bits, let the exponents 0 and base change places; its own inverse."""
    if layout.code_bits == 3:
        return words
    field = layout.word_dtype.type(layout.num_exponents - 1 << layout.mantissa_bits)
    base, exponent = place & field, words & field
    swapped = np.where(exponent == 0, base, np.where(exponent == base, 0, exponent))
    return words & ~field | swapped.astype(layout.word_dtype)


def _remainder(relative: np.ndarray, layout: SlotLayout) -> Streams:
    """Split sign and mantissa of w into byte plane and low plane (none for bfloat16)."""
    low_bits = layout.mantissa_bits - 7
    sign = relative >> (layout.word_bits - 1)
    mantissa = relative & 2**layout.mantissa_bits - 1
    streams = {"remainder": (sign << 7 | mantissa >> low_bits).astype(np.uint8)}
    if low_bits == 16:
        streams["remainder_low"] = mantissa.astype(np.uint16)
    elif low_bits == 3:
        streams["remainder_low"] = pack_rows(mantissa & 7, 3, layout)
    return streams


def _join(
    streams: Mapping[str, np.ndarray], exponent: np.ndarray, layout: SlotLayout
) -> np.ndarray:
    """Undo `_remainder` and put the exponents in their place: w of every padded element."""
    low_bits = layout.mantissa_bits - 7
    byte = streams["remainder"].astype(layout.word_dtype)
    words = byte >> 7 << (layout.word_bits - 1) | (byte & 127) << low_bits
    if low_bits == 16:
        words |= streams["remainder_low"]
    elif low_bits == 3:
        words |= unpack_rows(streams["remainder_low"], 3, layout)
    return words | exponent << layout.mantissa_bits
