"""The raw form on the wire: floats travel as unsigned integers of their width.

XLA on CPU widens bfloat16 to float32 and float8 to float16 even where a collective only moves
data, so a float that travels as itself costs up to twice its bytes.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import DTypeLike


def to_wire(x: jax.Array) -> jax.Array:
    """Reinterpret a float as bits; everything else travels as it is."""
    bits = _wire_dtype(x.dtype)
    return x if bits is None else lax.bitcast_convert_type(x, bits)


def from_wire(x: jax.Array, dtype: DTypeLike) -> jax.Array:
    """Undo `to_wire` for an array that was of `dtype`."""
    return x if _wire_dtype(dtype) is None else lax.bitcast_convert_type(x, dtype)


def _wire_dtype(dtype: DTypeLike) -> jnp.dtype | None:
    """The unsigned integer as wide as a float of `dtype`; None where nothing is to be done."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return None
    return jnp.dtype(f"uint{jnp.finfo(dtype).bits}")
