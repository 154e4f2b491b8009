"""Codec `triple_bitmap`, layout `rows16`: three bits name an exponent, patches name the others.

    tile       4096 elements = [16 rows, 256 lanes], element 256 row + lane of the tile
    codes      exponent - base where that is 0..7, else 0
    remainder  sign and mantissa of every element, dense
    patches    for each element outside the window, in tiles, rising: position << 4 | index, where
               position = 16 lane + row and the element's exponent is table[index] (its code is 0)
    rare       elements whose exponent is not in the table: (tile, position << 8 | exponent);
               they have a patch too, whose table entry is the base, so that it changes nothing

This is the ZipServ bitmap (section 4.1 of the paper) with two changes: all 8 codes name exponents,
and escapes leave the main stream, so that decoding it is elementwise. Written to be read, not to
be fast.
"""

import numpy as np

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
    bit_view,
    float_spec,
    join,
    num_tiles,
    pack_rows,
    split,
    unpack_rows,
    window_from_histogram,
)


def encode(x: np.ndarray) -> dict[str, np.ndarray]:
    """Compress a float array.

    Args:
        x: a float with coded exponents, any shape.

    Returns:
        streams: as `format.stream_specs` describes them.

    Raises:
        UnsupportedError: another dtype.
    """
    spec = float_spec(x.dtype)
    bits = bit_view(np.ascontiguousarray(x).reshape(-1))
    exponent, remainder = split(bits, spec)
    base, table = choose_exponents(exponent, spec)

    relative = exponent.astype(np.int64) - base
    escaped = (relative < 0) | (relative >= WINDOW_SIZE)
    codes = np.where(escaped, 0, relative)
    where, tile, position = _escapes_in_stored_order(escaped)
    index, is_rare = index_escapes(exponent[where], table, base)

    offsets = np.searchsorted(tile, np.arange(num_tiles(x.size) + 1))
    rare_exponent = exponent[where][is_rare].astype(np.uint32)
    return {
        "exponents": np.concatenate([[base], table]).astype(np.uint8),
        "codes": pack_rows(_tiles(codes)),
        **_pack_remainder(remainder, spec),
        "patch_offsets": offsets.astype(np.uint32),
        "patches": (position << 4 | index).astype(np.uint16),
        "rare_tiles": tile[is_rare].astype(np.uint32),
        "rare_entries": position[is_rare].astype(np.uint32) << np.uint32(8) | rare_exponent,
    }


def decode(streams: dict[str, np.ndarray], dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Undo `encode`: a new array of `dtype` and `shape`, bit for bit."""
    spec = float_spec(dtype)
    num_elems = int(np.prod(shape, dtype=np.int64))
    base, table = int(streams["exponents"][0]), streams["exponents"][1:]
    exponent = unpack_rows(streams["codes"]).astype(np.uint32) + np.uint32(base)

    offsets = streams["patch_offsets"].astype(np.int64)
    tile = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    patches = streams["patches"]
    lift = table[patches & 15].astype(np.uint32) - np.uint32(base)
    exponent[_at(tile, patches >> 4)] += lift

    entries = streams["rare_entries"]
    lift = (entries & 255) - np.uint32(base)
    exponent[_at(streams["rare_tiles"].astype(np.int64), entries >> 8)] += lift

    flat = exponent.reshape(-1)[:num_elems]
    bits = join(flat, _unpack_remainder(streams, spec, num_elems), spec)
    return bits.view(dtype).reshape(shape)


def choose_exponents(
    exponent: np.ndarray, spec: FloatSpec, *, needs_base: bool = False
) -> tuple[int, np.ndarray]:
    """The window's base, and the table of up to 16 exponents outside it by falling count (the lower
    first among equals). Where there are more, the last entry is the base: a patch that does
    nothing. So are entries that no patch needs.

    Args:
        exponent: uint8 [n].
        spec: the float.
        needs_base: the last entry is the base in any case.
    """
    base = window_from_histogram(_histogram(exponent, spec))
    counts = np.bincount(exponent, minlength=spec.num_exponents)
    counts[base : base + WINDOW_SIZE] = 0
    table = np.argsort(-counts, kind="stable")[:TABLE_SIZE]
    if needs_base or np.count_nonzero(counts) > TABLE_SIZE:
        table[-1] = base
    table[counts[table] == 0] = base
    return base, table


def index_escapes(
    exponent: np.ndarray, table: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """Each escape's index into the table, and which escapes are rare: not in it."""
    index_of = np.full(256, TABLE_SIZE - 1)
    index_of[table[::-1]] = np.arange(TABLE_SIZE)[::-1]
    is_rare = ~np.isin(exponent, table[table != base])
    return np.where(is_rare, TABLE_SIZE - 1, index_of[exponent]), is_rare


def _histogram(exponent: np.ndarray, spec: FloatSpec) -> np.ndarray:
    """Elements per exponent: all of a small tensor, one run in 17 of a large one."""
    if exponent.size > SAMPLE_ABOVE_ELEMS:
        group_elems = SAMPLE_RUN_ELEMS * SAMPLE_STRIDE_RUNS
        groups = exponent.size // group_elems
        exponent = exponent[: groups * group_elems].reshape(groups, group_elems)
        exponent = exponent[:, :SAMPLE_RUN_ELEMS].reshape(-1)
    return np.bincount(exponent, minlength=spec.num_exponents)


def _escapes_in_stored_order(escaped: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Element number, tile and position of each escape, by tile and rising position."""
    where = np.flatnonzero(escaped)
    tile, within = np.divmod(where, TILE_ELEMS)
    row, lane = np.divmod(within, TILE_LANES)
    position = lane * TILE_ROWS + row
    order = np.lexsort((position, tile))
    return where[order], tile[order], position[order]


def _tiles(flat: np.ndarray) -> np.ndarray:
    """[n] as [T, 16, 256]; the rest of the last tile is zero."""
    padded = np.zeros(num_tiles(flat.size) * TILE_ELEMS, flat.dtype)
    padded[: flat.size] = flat
    return padded.reshape(-1, TILE_ROWS, TILE_LANES)


def _at(tile: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices into [T, 16, 256] of positions in tiles."""
    return tile, position & 15, position >> 4


def _pack_remainder(remainder: np.ndarray, spec: FloatSpec) -> dict[str, np.ndarray]:
    """Byte planes where there are bytes, `rows16` for three bits, nibbles of rows i and i + 8 for
    four."""
    match spec.remainder_bits:
        case 24:
            high, low = remainder >> np.uint32(16), remainder & np.uint32(0xFFFF)
            return {"remainder": high.astype(np.uint8), "remainder_low": low.astype(np.uint16)}
        case 11:
            high, low = remainder >> np.uint16(3), remainder & np.uint16(7)
            return {"remainder": high.astype(np.uint8), "remainder_low": pack_rows(_tiles(low))}
        case 8:
            return {"remainder": remainder.astype(np.uint8)}
        case 4:
            rows = _tiles(remainder).astype(np.uint8)
            return {"remainder": rows[:, :8] | rows[:, 8:] << np.uint8(4)}
        case 3:
            return {"remainder": pack_rows(_tiles(remainder))}
    raise AssertionError(f"no packing for {spec.remainder_bits} remainder bits")


def _unpack_remainder(
    streams: dict[str, np.ndarray], spec: FloatSpec, num_elems: int
) -> np.ndarray:
    """Undo `_pack_remainder`: uint32 [n]."""
    stored = streams["remainder"]
    match spec.remainder_bits:
        case 24:
            return stored.astype(np.uint32) << 16 | streams["remainder_low"]
        case 11:
            low = unpack_rows(streams["remainder_low"]).reshape(-1)[:num_elems]
            return stored.astype(np.uint32) << 3 | low
        case 8:
            return stored.astype(np.uint32)
        case 4:
            rows = np.concatenate([stored & np.uint8(15), stored >> np.uint8(4)], axis=1)
            return rows.reshape(-1)[:num_elems].astype(np.uint32)
        case 3:
            return unpack_rows(stored).reshape(-1)[:num_elems].astype(np.uint32)
    raise AssertionError(f"no packing for {spec.remainder_bits} remainder bits")
