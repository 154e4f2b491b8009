"""What streams a compressed tensor has, and whether stored ones can be what they claim."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pallas_kernels.errors import FormatError, UnsupportedError
from pallas_kernels.format.dtypes import dtype_name
from pallas_kernels.format.floats import FLOATS, FloatSpec
from pallas_kernels.format.mma_order import (
    LANES,
    LOOK_AHEAD_TILES,
    MMA_GROUP_TILES,
    WORDS_PER_LOAD,
    matrix_grid,
    words_per_group,
)
from pallas_kernels.format.spec import (
    CODECS,
    LAYOUT_MMA,
    LAYOUTS,
    MMA_LAYOUTS,
    PATCH_INDEX_BITS,
    PATCH_WORDS_STEP,
    RARE_ENTRIES_STEP,
    RARE_EXPONENT_BITS,
    RAW,
    TABLE_SIZE,
    TILE_ELEMS,
    TILE_LANES,
    TILE_PATCH_WORDS,
    WINDOW_SIZE,
    WORDS_PER_LANE,
    num_tiles,
)


class StreamSpec(NamedTuple):
    """Dtype and shape of a stream; None stands for a size that the data decides."""

    dtype: np.dtype
    shape: tuple[int | None, ...]


def stream_specs(
    codec: str, layout: str, dtype: np.dtype, shape: tuple[int, ...]
) -> dict[str, StreamSpec]:
    """The streams of a tensor, by name, in stored order.

    Args:
        codec: name of the codec.
        layout: name of the layout.
        dtype: of the tensor.
        shape: of the tensor.

    Raises:
        UnsupportedError: a codec, layout or combination that this version does not know.
    """
    if codec not in CODECS:
        raise UnsupportedError(f"the codec must be one of {', '.join(CODECS)}", got=repr(codec))
    if layout not in LAYOUTS[codec]:
        raise UnsupportedError(
            f"the layout of {codec} must be one of {', '.join(LAYOUTS[codec])}", got=repr(layout)
        )
    num_elems = math.prod(shape)
    if codec == RAW:
        return {"raw": StreamSpec(np.dtype(np.uint8), (num_elems * dtype.itemsize,))}
    if dtype not in FLOATS:
        raise UnsupportedError(f"{codec} holds floats with a coded exponent", got=dtype_name(dtype))
    if layout in MMA_LAYOUTS:
        return _mma_specs(layout, FLOATS[dtype], shape)
    tiles = num_tiles(num_elems)
    u8, u16, u32 = np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32)
    return {
        "exponents": StreamSpec(u8, (1 + TABLE_SIZE,)),
        "codes": StreamSpec(u16, (tiles, WORDS_PER_LANE, TILE_LANES)),
        **_remainder_specs(FLOATS[dtype], num_elems),
        "patch_offsets": StreamSpec(u32, (tiles + 1,)),
        "patches": StreamSpec(u16, (None,)),
        "rare_tiles": StreamSpec(u32, (None,)),
        "rare_entries": StreamSpec(u32, (None,)),
    }


def check_streams(
    codec: str,
    layout: str,
    dtype: np.dtype,
    shape: tuple[int, ...],
    streams: Mapping[str, np.ndarray],
) -> None:
    """Refuse streams that no encoder can have written.

    Args:
        codec: name of the codec.
        layout: name of the layout.
        dtype: of the tensor.
        shape: of the tensor.
        streams: arrays by name; only their small index streams are read.

    Raises:
        UnsupportedError: unknown codec or layout.
        FormatError: a stream is missing, too many, of the wrong dtype or shape, or points outside.
    """
    specs = stream_specs(codec, layout, dtype, shape)
    if set(streams) != set(specs):
        raise FormatError(
            f"a {codec} tensor must have the streams {', '.join(specs)}",
            got=", ".join(sorted(streams)) or "none",
        )
    for name, spec in specs.items():
        _check_spec(name, spec, streams[name])
    if codec == RAW:
        return
    _check_exponents(np.asarray(streams["exponents"]), FLOATS[dtype])
    if layout in MMA_LAYOUTS:
        _check_mma(streams, FLOATS[dtype])
    else:
        _check_patches(np.asarray(streams["patch_offsets"]), np.asarray(streams["patches"]))
        _check_rare(
            np.asarray(streams["rare_tiles"]),
            np.asarray(streams["rare_entries"]),
            FLOATS[dtype],
            num_tiles(math.prod(shape)),
        )


def num_mma_tiles(layout: str, shape: tuple[int, ...]) -> int:
    """How many tiles of 16 rows by 256 depths hold a tensor in an mma layout."""
    rows, depth = shape[-2:] if layout == LAYOUT_MMA else shape[:-3:-1]
    groups, steps = matrix_grid(rows, depth)
    return math.prod(shape[:-2]) * groups * steps * MMA_GROUP_TILES


def _mma_specs(layout: str, spec: FloatSpec, shape: tuple[int, ...]) -> dict[str, StreamSpec]:
    if spec.width_bits != 16 or len(shape) < 2:
        raise UnsupportedError(
            f"layout {layout} holds matrices of 16-bit floats",
            got=f"{dtype_name(spec.dtype)}{list(shape)}",
        )
    tiles = num_mma_tiles(layout, shape)
    u8, u32 = np.dtype(np.uint8), np.dtype(np.uint32)
    return {
        "exponents": StreamSpec(u8, (1 + TABLE_SIZE,)),
        "words": StreamSpec(u32, (tiles, words_per_group(spec), LANES, WORDS_PER_LOAD)),
        "tile_offsets": StreamSpec(u32, (tiles + 1 + LOOK_AHEAD_TILES, 2)),
        "patches": StreamSpec(u32, (None,)),
        "rare_entries": StreamSpec(u32, (None,)),
    }


def _remainder_specs(spec: FloatSpec, num_elems: int) -> dict[str, StreamSpec]:
    """One byte where there are 8 bits; what is narrower or beyond is packed by tiles."""
    tiles = num_tiles(num_elems)
    u8, u16 = np.dtype(np.uint8), np.dtype(np.uint16)
    three_bits = StreamSpec(u16, (tiles, WORDS_PER_LANE, TILE_LANES))
    match spec.remainder_bits:
        case 24:
            return {
                "remainder": StreamSpec(u8, (num_elems,)),
                "remainder_low": StreamSpec(u16, (num_elems,)),
            }
        case 11:
            return {"remainder": StreamSpec(u8, (num_elems,)), "remainder_low": three_bits}
        case 8:
            return {"remainder": StreamSpec(u8, (num_elems,))}
        case 4:
            return {"remainder": StreamSpec(u8, (tiles, 8, TILE_LANES))}
        case 3:
            return {"remainder": three_bits}
    raise AssertionError(f"no packing for {spec.remainder_bits} remainder bits")


def _check_spec(name: str, spec: StreamSpec, array: np.ndarray) -> None:
    shape = tuple(array.shape)
    same_shape = len(shape) == len(spec.shape) and all(
        want is None or want == got for want, got in zip(spec.shape, shape, strict=True)
    )
    if array.dtype != spec.dtype or not same_shape:
        want = ", ".join("any" if size is None else str(size) for size in spec.shape)
        raise FormatError(
            f"stream {name!r} must be {spec.dtype}[{want}]", got=f"{array.dtype}{list(shape)}"
        )


def _check_exponents(exponents: np.ndarray, spec: FloatSpec) -> None:
    highest = spec.num_exponents - WINDOW_SIZE
    if exponents[0] > highest:
        raise FormatError(f"the window's base must be at most {highest}", got=exponents[0])
    if exponents.max() >= spec.num_exponents:
        raise FormatError(
            f"exponents of {dtype_name(spec.dtype)} must be below {spec.num_exponents}",
            got=exponents.max(),
        )


def _check_patches(offsets: np.ndarray, patches: np.ndarray) -> None:
    """Offsets rise from 0 to the number of patches; positions rise strictly inside each tile."""
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any() or offsets[-1] != patches.size:
        raise FormatError(
            "patch_offsets must rise from 0 to the number of patches",
            got=f"{offsets[0]} to {offsets[-1]} for {patches.size} patches",
        )
    positions = patches >> PATCH_INDEX_BITS
    rises = np.ones(patches.size + 1, bool)
    rises[1:-1] = positions[1:] > positions[:-1]
    rises[offsets] = True  # where a tile starts, and the end
    if not rises.all():
        at = int(np.argmin(rises))
        raise FormatError("patch positions must rise inside a tile", got=f"a fall at patch {at}")


def _check_rare(rare_tiles: np.ndarray, entries: np.ndarray, spec: FloatSpec, tiles: int) -> None:
    if rare_tiles.size != entries.size:
        raise FormatError(
            "rare_tiles and rare_entries must be of one length",
            got=f"{rare_tiles.size} and {entries.size}",
        )
    if not rare_tiles.size:
        return
    if rare_tiles.max() >= tiles:
        raise FormatError(f"rare_tiles must be below {tiles}", got=rare_tiles.max())
    exponents = entries & ((1 << RARE_EXPONENT_BITS) - 1)
    positions = entries >> RARE_EXPONENT_BITS
    if positions.max() >= TILE_ELEMS or exponents.max() >= spec.num_exponents:
        raise FormatError(
            f"rare entries must be below position {TILE_ELEMS} and exponent {spec.num_exponents}",
            got=f"{positions.max()} and {exponents.max()}",
        )
    where = rare_tiles.astype(np.int64) * TILE_ELEMS + positions
    if (where[1:] <= where[:-1]).any():
        raise FormatError("rare entries must rise by tile and position", got="a fall")


def _check_mma(streams: Mapping[str, np.ndarray], spec: FloatSpec) -> None:
    """The same rules, for lists that share one stream of offsets and are padded with zeros."""
    exponents = np.asarray(streams["exponents"])
    if exponents[-1] != exponents[0]:
        raise FormatError("the table's last entry must be the base", got=exponents[-1])
    offsets = np.asarray(streams["tile_offsets"])
    words, entries = np.asarray(streams["patches"]), np.asarray(streams["rare_entries"])
    starts = offsets.astype(np.int64)
    steps = starts[1:] - starts[:-1]
    counts, beyond = steps[:-LOOK_AHEAD_TILES], steps[-LOOK_AHEAD_TILES:]
    least, most = counts[:, 0].min(initial=1), counts[:, 0].max(initial=1)
    is_right = 1 <= least and most <= TILE_PATCH_WORDS and (counts[:, 1] >= 0).all()
    if offsets[0].any() or beyond.any() or not is_right:
        raise FormatError(
            f"tile_offsets must rise from 0, by 1 to {TILE_PATCH_WORDS} patch words a tile",
            got=f"{least} to {most}",
        )
    for name, array, count, step in (
        ("patches", words, int(offsets[-1, 0]), PATCH_WORDS_STEP),
        ("rare_entries", entries, int(offsets[-1, 1]), RARE_ENTRIES_STEP),
    ):
        if array.size != padded_size(count, step) or array[count:].any():
            raise FormatError(
                f"{name} must be {count} and zeros up to a multiple of {step}",
                got=f"{array.size}",
            )
    _check_pairs(offsets[: len(counts) + 1, 0], words[: offsets[-1, 0]])
    rare_tiles = np.repeat(np.arange(len(counts)), counts[:, 1])
    _check_rare(rare_tiles, entries[: offsets[-1, 1]], spec, len(counts))


def _check_pairs(offsets: np.ndarray, words: np.ndarray) -> None:
    """Positions rise strictly inside a tile, but for the last pair of a tile, which may be one
    patch twice."""
    is_last = np.zeros(words.size + 1, bool)
    is_last[offsets] = True
    pairs = words.view("<u2").reshape(-1, 2)
    is_double = is_last[1:] & (pairs[:, 0] == pairs[:, 1])
    low, high = (pairs >> PATCH_INDEX_BITS).T
    rises = (low < high) | is_double
    rises[1:] &= is_last[1:-1] | (high[:-1] < low[1:])
    if not rises.all():
        at = int(np.argmin(rises))
        raise FormatError("patch positions must rise inside a tile", got=f"a fall at word {at}")


def padded_size(count: int, step: int) -> int:
    """`count` entries in steps, at least one."""
    return max(step, -(-count // step) * step)
