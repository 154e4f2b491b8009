"""Everyone sends its array to one rank at most."""

from collections.abc import Sequence

import jax
from jax import lax

from pallas_kernels.errors import ArgumentError
from parallel.collectives import legs
from parallel.collectives.axes import AxisName, axis_tuple
from parallel.collectives.pbroadcast import broadcast_array
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec


def ppermute(x, axis_name: AxisName, perm: Sequence[tuple[int, int]], *, codec: Codec = None):
    """Send `x` from rank to rank by the pairs of `perm`: the bits of `jax.lax.ppermute`.

    The gradient is the way back: our `ppermute` by the inverse pairs, with the same codec.

    Args:
        x: array or pytree of arrays, any dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        perm: (source, destination) ranks; no source and no destination twice.
        codec: "exponent" compresses what travels, None sends bits as they are.

    Returns:
        What came from the source, or zeros on a rank that is no destination; typed as varying
        over `axis_name`.

    Raises:
        ArgumentError: when a rank is out of range, or is a source or a destination twice.
    """
    names = axis_tuple(axis_name)
    pairs = _checked_pairs(perm, lax.axis_size(names))
    inverse = tuple((destination, source) for source, destination in pairs)

    def permute_array(leaf):
        return apply_linear(
            lambda x: legs.permute(x, names, codec, pairs),
            lambda x: legs.permute(x, names, codec, inverse),
            broadcast_array(leaf, names, codec),
        )

    return jax.tree.map(permute_array, x)


def _checked_pairs(perm, num_ranks: int) -> tuple[tuple[int, int], ...]:
    """Pairs of Python ints in range, each rank at most once on either side."""
    pairs = tuple((int(source), int(destination)) for source, destination in perm)
    for side, ranks in zip(("source", "destination"), zip(*pairs, strict=True), strict=False):
        if len(set(ranks)) < len(ranks) or not all(0 <= rank < num_ranks for rank in ranks):
            raise ArgumentError(
                f"perm must name each {side} at most once, and only ranks 0 to {num_ranks - 1}",
                got=list(pairs),
            )
    return pairs
