"""Everyone sends its array to one rank at most."""

from collections.abc import Sequence

import jax
from jaxtyping import Array, PyTree

from pallas_kernels import ArgumentError
from parallel.collectives import legs
from parallel.collectives.axes import AxisName
from parallel.collectives.call import open_call
from parallel.collectives.pbroadcast import as_varying
from parallel.collectives.transpose import apply_linear
from parallel.wire import Codec

Pairs = tuple[tuple[int, int], ...]


def ppermute(
    x: PyTree[Array], axis_name: AxisName, perm: Sequence[tuple[int, int]], *, codec: Codec = None
) -> PyTree[Array]:
    """Send `x` from rank to rank by the pairs of `perm`: the bits of `jax.lax.ppermute`.

    The gradient is the way back: our `ppermute` by the inverse pairs, with the same codec.

    Args:
        x: array or pytree of arrays, any dtype and shape.
        axis_name: mesh axis name, or a tuple of names from slow to fast.
        perm: (source, destination) ranks; no source and no destination twice.
        codec: "exponent" or an `ExponentConfig` compresses what travels, None sends bits.

    Returns:
        What came from the source, or zeros on a rank that is no destination; typed as varying
        over `axis_name`.

    Raises:
        ArgumentError: when a rank is out of range, or is a source or a destination twice, the
            axis name is unbound or the codec is none.
    """
    call = open_call("ppermute", axis_name, codec)
    pairs = _checked_pairs(perm, call.num_ranks)
    inverse = tuple((destination, source) for source, destination in pairs)

    def permute_array(leaf):
        return apply_linear(
            lambda x, call: legs.permute(x, call, pairs),
            lambda x, call: legs.permute(x, call, inverse),
            as_varying(leaf, call),
            call,
        )

    return jax.tree.map(permute_array, x)


def _checked_pairs(perm: Sequence[tuple[int, int]], num_ranks: int) -> Pairs:
    """Pairs of Python ints in range, each rank at most once on either side."""
    pairs = tuple((int(source), int(destination)) for source, destination in perm)
    for idx, side in enumerate(("source", "destination")):
        ranks = [pair[idx] for pair in pairs]
        if len(set(ranks)) < len(ranks) or not all(0 <= rank < num_ranks for rank in ranks):
            raise ArgumentError(
                f"perm must name each {side} at most once, and only ranks 0 to {num_ranks - 1}",
                got=list(pairs),
            )
    return pairs
