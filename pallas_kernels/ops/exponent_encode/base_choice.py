"""The window of every run, from a sample: the mean exponent of the run, and one lift for all runs.

For N(0, sigma**2) the mean biased exponent is log2(sigma) - 1.416 + bias (within 0.0004), and the
window of 8 that misses fewest elements starts at floor(mean - 4.182). A sample of 64 elements
knows the mean to a quarter of an exponent, at an eighth of the cost of a full pass. A window of 16
has room to spare for a normal distribution and starts at floor(mean - 10), in the middle of what a
wide one needs.

Data with more small values than a normal distribution has (products, GELU, Laplace) pull the mean
down and leave the window too low. How far is a property of the data, not of the run: the lift, 0 to
3 exponents, that misses fewest sampled elements of the whole tensor is added to every run.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pallas_kernels.format.slot_layout import (
    MEAN_TO_BASE_1024,
    NUM_LIFTS,
    SAMPLE_ELEMS,
    TYPICAL_RUNS,
    SlotLayout,
)


def choose_base(words: Array, layout: SlotLayout) -> Array:
    """Choose the base of every run.

    Args:
        words: uint16 or uint32 [padded_elems], bits of the floats; padding is 0, which is left
            out as are all zeros, subnormals and non-finite values.
        layout: the sizes.

    Returns:
        uint8 [T, 16, 16]. A run without any other value in its sample gets 0, which has zeros in
        its window; with codes of 4 bits every window has, and it gets the typical base instead.
    """
    exponent, regular = _sample(words, layout)
    total, count = _sum_sample(exponent * regular, regular)
    base = _floor_of_mean(
        total.astype(jnp.int32)[None],
        count.astype(jnp.int32)[None],
        MEAN_TO_BASE_1024[layout.code_bits],
    )
    relative = exponent - base.astype(jnp.uint16)[:, None]
    known = _nonzero(count).astype(jnp.uint8)
    return choose_among(base, known, _count_missed(relative, regular, layout), layout)


def choose_among(base: Array, known: Array, missed: Array, layout: SlotLayout) -> Array:
    """Give all runs one lift, and those that nothing is known of the typical base.

    Args:
        base: uint8 [R], without lift; 0 where nothing is known.
        known: uint8 [R], 1 or 0.
        missed: int32 [4], sampled elements that each lift leaves outside.
        layout: the sizes.

    Returns:
        uint8 [T, 16, 16].
    """
    lift = jnp.argmin(missed).astype(jnp.uint8)
    if layout.code_bits == 3:
        terms = jnp.stack([base, known * lift])
    else:
        filler = (np.uint8(1) - known) * _typical(base, known)
        terms = jnp.stack([base, filler, jnp.broadcast_to(lift, base.shape)])
    # A reduce for an addition, for the reason given in `_floor_of_mean`.
    return lax.reduce(terms, np.uint8(0), lax.add, (0,)).reshape(layout.num_tiles, 16, 16)


def _sample(words: Array, layout: SlotLayout) -> tuple[Array, Array]:
    """Biased exponents of each run's first elements and which count: 2 x uint16 [R, S]."""
    runs = words.reshape(layout.num_runs, layout.run_elems)
    sample = runs[:, : min(SAMPLE_ELEMS, layout.run_elems)]
    largest = layout.num_exponents - 1
    exponent = (sample >> layout.mantissa_bits).astype(jnp.uint16) & np.uint16(largest)
    # 1 for 1..largest-1, without a compare: those are the values whose successor is 2..largest.
    return exponent, _nonzero((exponent + np.uint16(1)) & np.uint16(largest - 1))


def _floor_of_mean(total: Array, count: Array, offset_1024: int) -> Array:
    """floor(total / count - offset), at least 0, and 0 where count is: int32 [1, R] -> uint8 [R].

    Counted as the thresholds that the mean has reached, sixteens first. A division would be fused
    into each of the encoder's passes over the elements; XLA does not fuse past a reduce. It must be
    a reduce of bytes: widening or narrowing fused into those passes makes them five times slower.
    """
    ordinal = np.arange(16, dtype=np.int32)[:, None]

    def passed(low: Array, step: int) -> Array:
        low = low.astype(jnp.int32)
        threshold = (low + ordinal * step) * 1024 + offset_1024
        reached = (threshold * count <= total * 1024) & (count > 0)
        terms = jnp.where(ordinal == 0, low, reached.astype(jnp.int32) * step).astype(jnp.uint8)
        return lax.reduce(terms, np.uint8(0), lax.add, (0,))[None]

    return passed(passed(jnp.zeros_like(count), 16), 1)[0]


def _typical(base: Array, known: Array) -> Array:
    """The mean base of the runs whose sample says something: 2 x uint8 [R] -> uint8 []."""
    total, count = (x[:TYPICAL_RUNS].astype(jnp.int32).sum() for x in (base, known))
    return (total // jnp.maximum(count, 1)).astype(jnp.uint8)


def _count_missed(relative: Array, regular: Array, layout: SlotLayout) -> Array:
    """Elements that each lift leaves outside: uint16 [R, S] -> int32 [4]."""
    lowest = layout.lowest_code
    missed = []
    for lift in range(NUM_LIFTS):  # unsigned: what is below the window wraps to far above it
        above = (relative - np.uint16(lift + lowest)) >= np.uint16(layout.window - lowest)
        missed.append(above.astype(jnp.uint16) & regular)
    return jnp.stack([m.astype(jnp.int32).sum() for m in _sum_sample(*missed)])


def _sum_sample(*operands: Array) -> tuple[Array, ...]:
    """Sum several arrays over the sample in one pass: each uint16 [R, S] -> uint16 [R]."""
    zeros = tuple(np.uint16(0) for _ in operands)
    return tuple(
        lax.reduce(operands, zeros, lambda a, b: [x + y for x, y in zip(a, b, strict=True)], (1,))
    )


def _nonzero(x: Array) -> Array:
    return jnp.minimum(x, np.uint16(1))
