"""The window of a run in closed form: base = floor(mean biased exponent - 4.182).

For N(0, sigma**2) the mean exponent is log2(sigma) - 1.416 (within 0.0004), and the window of 8
that misses fewest elements starts at floor(log2(sigma) - 5.598). A sample of 64 elements knows the
mean to a quarter of an exponent, at an eighth of the cost of a full pass.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pallas_kernels.format.slot_layout import SlotLayout

MEAN_TO_BASE_1024 = 4282
SAMPLE_ELEMS = 64


def choose_base(words: Array, layout: SlotLayout) -> Array:
    """Choose the base of every run.

    Args:
        words: uint16 or uint32 [padded_elems], bits of the floats; padding is 0, which the mean
            leaves out as it does all zeros, subnormals and non-finite values.
        layout: the sizes.

    Returns:
        uint8 [T, 16, 16].
    """
    runs = words.reshape(layout.num_runs, layout.run_elems)
    sample = runs[:, : min(SAMPLE_ELEMS, layout.run_elems)]
    mask = 2**layout.exponent_bits - 1
    exponent = (sample >> layout.mantissa_bits).astype(jnp.uint16) & np.uint16(mask)
    # 1 for 1..mask-1, without a compare: those are the values whose successor is 2..mask.
    regular = jnp.minimum((exponent + np.uint16(1)) & np.uint16(mask - 1), np.uint16(1))
    total, count = lax.reduce(
        (exponent * regular, regular),
        (np.uint16(0), np.uint16(0)),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        (1,),
    )
    base = _floor_of_mean(total.astype(jnp.int32)[None], count.astype(jnp.int32)[None])
    return base.reshape(layout.num_tiles, 16, 16)


def _floor_of_mean(total: Array, count: Array) -> Array:
    """floor(total / count - 4.182), 0 at least and where count is 0: int32 [1, R] -> uint8 [R].

    Counted as the thresholds that the mean has reached, sixteens first. A division would be fused
    into each of the encoder's passes over the elements; XLA does not fuse past this reduce.
    """
    ordinal = np.arange(1, 16, dtype=np.int32)[:, None]

    def passed(low: Array, step: int) -> Array:
        threshold = (low + ordinal * step) * 1024 + MEAN_TO_BASE_1024
        reached = (threshold * count <= total * 1024) & (count > 0)
        steps = lax.reduce(reached.astype(jnp.int32), np.int32(0), lax.add, (0,))
        return low + steps[None] * step

    return passed(passed(jnp.zeros_like(count), 16), 1)[0].astype(jnp.uint8)
