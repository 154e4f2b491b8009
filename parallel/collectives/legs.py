"""What really travels: four legs without derivatives, of which every collective is made.

    gather    [...]    -> [P, ...]   everyone gets everyone's part
    exchange  [P, ...] -> [P, ...]   part q of rank p becomes part p of rank q
    permute   [...]    -> [...]      rank p sends to one rank at most
    reduce    both of the first two, with a sum in rank order

`lax.psum_scatter` is not among them and must never be: on CPU it gives wrong sums now and then
for large buffers in several jax versions (jax-ml/jax issue 40830). Nor may the legs be
differentiated by JAX, since the transpose of `lax.all_gather` is that very function.
"""

from collections.abc import Hashable, Sequence
from math import ceil

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from parallel.collectives.rank_sum import rank_sum
from parallel.wire import Codec, transport

# Up to this many bytes a psum gathers all operands and adds them (one leg, one wait) instead of
# reducing parts and gathering those (two waits, fewer bytes for more than two ranks).
GATHER_AND_SUM_NBYTES = 1 << 14

Names = tuple[Hashable, ...]


def gather(x: jax.Array, names: Names, codec: Codec, *, to: str = "varying") -> jax.Array:
    """Return the operands of all ranks in rank order: [P, ...]."""
    return transport(x, lambda leaf: lax.all_gather(leaf, names, to=to))


def exchange(parts: jax.Array, names: Names, codec: Codec) -> jax.Array:
    """Send part q to rank q, for every q; return what came in, in rank order: [P, ...]."""
    return transport(parts, lambda leaf: lax.all_to_all(leaf, names, 0, 0))


def permute(x: jax.Array, names: Names, codec: Codec, perm: Sequence[tuple[int, int]]) -> jax.Array:
    """Send `x` from source to destination for each pair; zeros for a rank that gets nothing."""
    received = transport(x, lambda leaf: lax.ppermute(leaf, names, perm))
    num_ranks = lax.axis_size(names)
    is_receiver = np.zeros(num_ranks, bool)
    is_receiver[[destination for _, destination in perm]] = True
    if is_receiver.all():
        return received
    here = jnp.asarray(is_receiver)[lax.axis_index(names)]
    return jnp.where(here, received, jnp.zeros_like(received))


def reduce_scatter(parts: jax.Array, names: Names, codec: Codec) -> jax.Array:
    """Sum part q of all ranks on rank q."""
    return rank_sum(exchange(parts, names, codec))


def reduce(x: jax.Array, names: Names, codec: Codec) -> jax.Array:
    """Sum `x` over all ranks; the result is typed as equal on all of them."""
    if x.nbytes <= GATHER_AND_SUM_NBYTES:
        return rank_sum(gather(x, names, codec, to="invarying"))
    num_ranks = lax.axis_size(names)
    part_elems = ceil(x.size / num_ranks)
    flat = jnp.pad(x.reshape(-1), (0, num_ranks * part_elems - x.size))
    mine = reduce_scatter(flat.reshape(num_ranks, part_elems), names, codec)
    total = gather(mine, names, codec, to="invarying")
    return total.reshape(-1)[: x.size].reshape(x.shape)
