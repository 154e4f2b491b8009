"""A whole compressed tensor as an array: the same bits as `codecs.triple_bitmap`.

    out[t, row, lane] = remainder + (base + code) << M           elementwise, one pass
    out[patches]     += (table[index] - base) << M               modulo 2^width, so it may go down
    out[rare]        += (exponent - base) << M

Rows 0..14 are computed as [T, 3, 5, 256] and row 15 apart: one broadcast shift serves five rows,
and the concatenation comes after all arithmetic. Sixteen slices of one row take 3 times as long on
CPU.
"""

from collections.abc import Callable
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from pallas_kernels.codecs import raw
from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format import (
    FLOATS,
    LAYOUT_ROWS16,
    MMA_LAYOUTS,
    RAW,
    TILE_ELEMS,
    TILE_LANES,
    TILE_ROWS,
    FloatSpec,
    dtype_name,
    float_spec,
)
from pallas_kernels.tensor import CompressedTensor
from pallas_kernels.tiles.arrange import prefix_sum, to_tiles
from pallas_kernels.tiles.mma import decode_mma

_FIVE = np.arange(5, dtype=np.uint16)[None, None, :, None] * np.uint16(3)


def decode_whole(tensor: CompressedTensor) -> jax.Array:
    """Decode on the device.

    Raises:
        UnsupportedError: a raw tensor of a dtype that JAX cannot hold, or not bitcast while traced.
    """
    streams = {name: jnp.asarray(stream) for name, stream in tensor.streams.items()}
    if tensor.codec == RAW:
        return decode_raw(streams["raw"], tensor.dtype, tensor.shape)
    if tensor.layout not in _LAYOUTS:
        raise UnsupportedError(
            f"XLA decodes the layouts {', '.join(_LAYOUTS)}", got=repr(tensor.layout)
        )
    decode = _LAYOUTS[tensor.layout]
    return decode(streams, float_spec(tensor.dtype), tensor.shape, tensor.layout)


def _decode_rows16(
    streams: dict[str, jax.Array], spec: FloatSpec, shape: tuple[int, ...], _layout: str
) -> jax.Array:
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


_decode_mma_jit = jax.jit(decode_mma, static_argnums=(1, 2, 3))
_LAYOUTS = MappingProxyType(
    {LAYOUT_ROWS16: jax.jit(_decode_rows16, static_argnums=(1, 2, 3))}
    | dict.fromkeys(MMA_LAYOUTS, _decode_mma_jit)
)


def _decode_window(streams: dict[str, jax.Array], base: jax.Array, spec: FloatSpec) -> jax.Array:
    """Every element as if it were in the window: unsigned [T, 16, 256]."""
    word = spec.bits_dtype
    codes, remainder, low = streams["codes"], streams["remainder"], streams.get("remainder_low")
    if remainder.ndim == 1:
        remainder = to_tiles(remainder)
    if low is not None and low.ndim == 1:
        low = to_tiles(low)
    if spec.remainder_bits == 4:
        remainder = jnp.concatenate([remainder & 15, remainder >> 4], axis=1)

    def join(code: jax.Array, high: jax.Array, low: jax.Array | None) -> jax.Array:
        exponent = (code.astype(word) + base.astype(word)) << spec.mantissa_bits
        return place_remainder(high.astype(word), low, spec) + exponent

    def rows(take: Callable[[jax.Array], jax.Array]) -> jax.Array:
        return join(take(codes), take(remainder), None if low is None else take(low))

    first = rows(first_rows).reshape(-1, TILE_ROWS - 1, TILE_LANES)
    return jnp.concatenate([first, rows(last_row)], axis=1)


def first_rows(stream: jax.Array) -> jax.Array:
    """Rows 0..14, [T, 3, 5, 256], of a stream of words [T, 3, 256] or of rows [T, 16, 256]."""
    if stream.shape[1] == 3:
        return (stream[:, :, None] >> _FIVE) & 7
    return stream[:, : TILE_ROWS - 1].reshape(-1, 3, 5, TILE_LANES)


def last_row(stream: jax.Array) -> jax.Array:
    """Row 15, [T, 1, 256]."""
    if stream.shape[1] == 3:
        top = stream >> 15
        return top[:, :1] | top[:, 1:2] << 1 | top[:, 2:] << 2
    return stream[:, TILE_ROWS - 1 :]


def place_remainder(high: jax.Array, low: jax.Array | None, spec: FloatSpec) -> jax.Array:
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
    """Raise exponents from the base to what they are; tiles that `out` has not are dropped."""
    word = spec.bits_dtype
    lift = (exponent.astype(word) - base.astype(word)) << spec.mantissa_bits
    tile, position = tile.astype(jnp.int32), position.astype(jnp.int32)
    row, lane = position & 15, position >> 4
    if out.size < 2**31 - TILE_ELEMS:  # one 32-bit number finds an element, in two thirds the time
        at = out.reshape(-1).at[tile * TILE_ELEMS + row * TILE_LANES + lane]
        return at.add(lift, mode="drop", unique_indices=True).reshape(out.shape)
    return out.at[tile, row, lane].add(lift, mode="drop", unique_indices=True)


def decode_raw(stream: jax.Array, dtype: np.dtype, shape: tuple[int, ...]) -> jax.Array:
    """Bytes as elements; through the host where JAX has no bitcast for them."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise UnsupportedError(
            "JAX holds no 64-bit types here",
            got=dtype_name(dtype),
            fix="enable jax_enable_x64, or keep the tensor's streams in NumPy",
        )
    if dtype in FLOATS or (dtype.kind in "iu" and not dtype_name(dtype).endswith(("int4", "int2"))):
        wide = stream.reshape(shape if dtype.itemsize == 1 else (*shape, dtype.itemsize))
        return lax.bitcast_convert_type(wide, dtype)
    if isinstance(stream, jax.core.Tracer):
        raise UnsupportedError("JAX cannot bitcast to this dtype", got=dtype_name(dtype))
    return jnp.asarray(raw.decode({"raw": np.asarray(stream)}, dtype, shape))
