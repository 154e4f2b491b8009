"""The `xla` backend of `decode`: plain `jnp`, the same bits as `codecs.triple_bitmap`.

    out[t, row, lane] = remainder + (base + code) << M           elementwise, one pass
    out[patches]     += (table[index] - base) << M               modulo 2^width, so it may go down
    out[rare]        += (exponent - base) << M

Rows 0..14 are computed as [T, 3, 5, 256] and row 15 apart: one broadcast shift serves five rows,
and the concatenation comes after all arithmetic. Sixteen slices of one row take 3 times as long on
CPU.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    RAW,
    SAMPLE_ABOVE_ELEMS,
    TILE_ELEMS,
    TILE_LANES,
    TILE_ROWS,
    FloatSpec,
    dtype_name,
    float_spec,
    num_tiles,
)
from pallas_kernels.shapes import capacity_of, tile_capacity_of
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles import prefix_sum, to_tiles

_FIVE = np.arange(5, dtype=np.uint16)[None, None, :, None] * np.uint16(3)


def decode(tensor: CompressedTensor) -> jax.Array | np.ndarray:
    """Decode on the device.

    Raises:
        UnsupportedError: a raw tensor of a dtype that JAX cannot bitcast to or hold here.
    """
    if tensor.codec == RAW:
        return _decode_raw(jnp.asarray(tensor.streams["raw"]), tensor.dtype, tensor.shape)
    streams, shape = dict(tensor.streams), tensor.shape
    if all(isinstance(stream, np.ndarray) for stream in streams.values()):
        streams, shape = _fill_up(tensor)
    device_streams = {name: jnp.asarray(stream) for name, stream in streams.items()}
    x = _decode_jit(device_streams, float_spec(tensor.dtype), shape)
    if shape != tensor.shape:
        return np.asarray(x)[: tensor.size].reshape(tensor.shape)
    return x


def _decode(streams: dict[str, jax.Array], spec: FloatSpec, shape: tuple[int, ...]) -> jax.Array:
    """See the module's docstring."""
    num_elems = int(np.prod(shape, dtype=np.int64))
    base, table = streams["exponents"][0], streams["exponents"][1:]
    out = _decode_window(streams, base, spec)

    patches = streams["patches"]
    tile = _tile_of_patch(streams["patch_offsets"], patches.size)
    out = _lift(out, tile, patches >> 4, table[patches & 15], base, spec)
    entries = streams["rare_entries"]
    if entries.size:
        exponent = (entries & 255).astype(jnp.uint8)
        out = _lift(out, streams["rare_tiles"], entries >> 8, exponent, base, spec)

    bits = lax.slice(out.reshape(-1), (0,), (num_elems,)).reshape(shape)
    return lax.bitcast_convert_type(bits, spec.dtype)


_decode_jit = jax.jit(_decode, static_argnums=(1, 2))


def _decode_window(streams: dict[str, jax.Array], base: jax.Array, spec: FloatSpec) -> jax.Array:
    """Every element as if it were in the window: unsigned [T, 16, 256]."""
    word = spec.bits_dtype
    codes = streams["codes"]
    remainder = streams["remainder"]
    low = streams.get("remainder_low")
    if remainder.ndim == 1:
        remainder = to_tiles(remainder)
    if low is not None and low.ndim == 1:
        low = to_tiles(low)
    if spec.remainder_bits == 4:
        remainder = jnp.concatenate([remainder & 15, remainder >> 4], axis=1)

    def join(code: jax.Array, high: jax.Array, low: jax.Array | None) -> jax.Array:
        exponent = (code.astype(word) + base.astype(word)) << spec.mantissa_bits
        return _place_remainder(high.astype(word), low, spec) + exponent

    first = join(_first_rows(codes), *(_first_rows(s) for s in (remainder, low)))
    last = join(_last_row(codes), *(_last_row(s) for s in (remainder, low)))
    return jnp.concatenate([first.reshape(-1, TILE_ROWS - 1, TILE_LANES), last], axis=1)


def _first_rows(stream: jax.Array | None) -> jax.Array | None:
    """Rows 0..14, [T, 3, 5, 256], of a stream of words [T, 3, 256] or of rows [T, 16, 256]."""
    if stream is None:
        return None
    if stream.shape[1] == 3:
        return (stream[:, :, None] >> _FIVE) & 7
    return stream[:, : TILE_ROWS - 1].reshape(-1, 3, 5, TILE_LANES)


def _last_row(stream: jax.Array | None) -> jax.Array | None:
    """Row 15, [T, 1, 256]."""
    if stream is None:
        return None
    if stream.shape[1] == 3:
        top = stream >> 15
        return top[:, :1] | top[:, 1:2] << 1 | top[:, 2:] << 2
    return stream[:, TILE_ROWS - 1 :]


def _place_remainder(high: jax.Array, low: jax.Array | None, spec: FloatSpec) -> jax.Array:
    """Sign and mantissa where they belong, exponent zero."""
    word = spec.bits_dtype
    match spec.remainder_bits:
        case 24:
            assert low is not None
            return (high & 0x80) << 24 | (high & 0x7F) << 16 | low.astype(word)
        case 11:
            assert low is not None
            return (high & 0x80) << 8 | (high & 0x7F) << 3 | low.astype(word)
        case 8:
            return (high & 0x80) << 8 | high & 0x7F
        case 4:
            return (high & 8) << 4 | high & 7
        case 3:
            return (high & 4) << 5 | high & 3
    raise AssertionError(f"no packing for {spec.remainder_bits} remainder bits")


def _tile_of_patch(offsets: jax.Array, num_patches: int) -> jax.Array:
    """The tile of each patch: int32 [K]; one that is not there beyond the last patch."""
    if not num_patches:
        return jnp.zeros(0, jnp.int32)
    # A patch's tile is the number of tiles that end at or before it.
    ends = jnp.zeros(num_patches, jnp.int32).at[offsets[1:].astype(jnp.int32)].add(1, mode="drop")
    return prefix_sum(ends)


def _lift(
    out: jax.Array,
    tile: jax.Array,
    position: jax.Array,
    exponent: jax.Array,
    base: jax.Array,
    spec: FloatSpec,
) -> jax.Array:
    """Raise the exponents at positions of tiles from the base to what they are; absent tiles are
    dropped."""
    word = spec.bits_dtype
    lift = (exponent.astype(word) - base.astype(word)) << spec.mantissa_bits
    tile, position = tile.astype(jnp.int32), position.astype(jnp.int32)
    row, lane = position & 15, position >> 4
    if out.size < 2**31:  # one 32-bit number finds an element: a third less time than three
        at = out.reshape(-1).at[tile * TILE_ELEMS + row * TILE_LANES + lane]
        return at.add(lift, mode="drop", unique_indices=True).reshape(out.shape)
    return out.at[tile, row, lane].add(lift, mode="drop", unique_indices=True)


def _decode_raw(raw: jax.Array, dtype: np.dtype, shape: tuple[int, ...]) -> jax.Array:
    if jax.dtypes.canonicalize_dtype(dtype) != dtype or dtype_name(dtype)[-4:] in ("int4", "int2"):
        raise UnsupportedError(
            "JAX cannot hold this dtype as it is stored",
            got=dtype_name(dtype),
            fix="keep the tensor's streams in NumPy, or enable jax_enable_x64 for 64-bit types",
        )
    if dtype == np.bool_:
        return raw.reshape(shape).astype(jnp.bool_)
    if np.issubdtype(dtype, np.complexfloating):
        part = np.dtype(f"f{dtype.itemsize // 2}")
        parts = lax.bitcast_convert_type(raw.reshape(*shape, 2, part.itemsize), part)
        return lax.complex(parts[..., 0], parts[..., 1])
    if dtype.itemsize == 1:
        return lax.bitcast_convert_type(raw.reshape(shape), dtype)
    return lax.bitcast_convert_type(raw.reshape(*shape, dtype.itemsize), dtype)


def _fill_up(tensor: CompressedTensor) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """Host streams filled up to sizes that share programs, and the shape they then have."""
    streams, shape, tiles = dict(tensor.streams), tensor.shape, num_tiles(tensor.size)
    if tensor.size <= SAMPLE_ABOVE_ELEMS:
        room = tile_capacity_of(tiles)
        shape = (room * TILE_ELEMS,)
        for name in {"codes", "remainder", "remainder_low"} & set(streams):
            streams[name] = _extend(streams[name], shape[0] if streams[name].ndim == 1 else room)
        streams["patch_offsets"] = _extend(
            streams["patch_offsets"], room + 1, streams["patch_offsets"][-1]
        )
        tiles = room
    # Patches beyond patch_offsets[-1] do nothing, nor does a tile that is not there.
    fillers = {"patches": 0, "rare_tiles": tiles, "rare_entries": 0}
    for name, filler in fillers.items():
        if streams[name].size or name == "patches":
            streams[name] = _extend(streams[name], capacity_of(streams[name].size), filler)
    return streams, shape


def _extend(stream: np.ndarray, length: int, filler: int = 0) -> np.ndarray:
    extended = np.full((length, *stream.shape[1:]), filler, stream.dtype)
    extended[: stream.shape[0]] = stream
    return extended
