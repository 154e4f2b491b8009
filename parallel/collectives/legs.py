"""What really travels: legs without derivatives, of which every collective is made.

    gather          [...]    -> [P, ...]   everyone gets everyone's operand
    exchange        [P, ...] -> [P, ...]   part q of rank p becomes part p of rank q
    permute         [...]    -> [...]      rank p sends to one rank at most
    reduce_scatter  [P, ...] -> [...]      an exchange and a sum in rank order
    reduce          [...]    -> [...]      a gather and a sum, or a reduce_scatter and a gather

`lax.psum_scatter` is not among them and must never be: on CPU it gives wrong sums now and then
for large buffers in several jax versions (jax-ml/jax issue 40830). Nor may the legs be
differentiated by JAX, since the transpose of `lax.all_gather` is that very function.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from parallel.collectives.call import Call
from parallel.collectives.rank_sum import rank_sum
from parallel.wire import (
    Leg,
    exchange_share,
    from_wire,
    gather_share,
    permute_share,
    to_wire,
    transport,
)

# Up to so many bytes a psum gathers the operands and adds them, which waits once; beyond, it
# adds parts and gathers those, which waits twice and sends P / 2 times less: for two ranks, the
# same. Either way the bits are those of the definition.
GATHER_AND_SUM_NBYTES = 1 << 14


def gather(x: jax.Array, call: Call, *, to: str = "varying") -> jax.Array:
    """Return the operands of all ranks in rank order: [P, ...]."""
    leg = Leg(
        move=lambda stream: lax.all_gather(stream, call.names, to=to),
        names=call.names,
        site=call.site,
        link_share=gather_share(call.num_ranks),
        parts_in=False,
        parts_out=True,
    )
    return transport(x, leg, call.codec)


def exchange(parts: jax.Array, call: Call) -> jax.Array:
    """Send part q to rank q, for every q; return what came in, in rank order: [P, ...]."""
    leg = Leg(
        move=lambda stream: lax.all_to_all(stream, call.names, 0, 0),
        names=call.names,
        site=call.site,
        link_share=exchange_share(call.num_ranks),
        parts_in=True,
        parts_out=True,
    )
    return transport(parts, leg, call.codec)


def permute(x: jax.Array, call: Call, perm: Sequence[tuple[int, int]]) -> jax.Array:
    """Send `x` from source to destination for each pair; zeros for a rank that gets nothing."""
    leg = Leg(
        move=lambda stream: lax.ppermute(stream, call.names, perm),
        names=call.names,
        site=call.site,
        link_share=permute_share(call.num_ranks, perm),
        parts_in=False,
        parts_out=False,
    )
    received = transport(x, leg, call.codec)
    receives = np.zeros(call.num_ranks, bool)
    receives[[destination for _, destination in perm]] = True
    if receives.all():
        return received
    # A payload of zeros, which is what such a rank gets, need not decode to zeros. Choose on
    # bits: XLA on CPU widens a choice between bfloat16 numbers, and quiets signalling NaNs.
    here = jnp.asarray(receives)[lax.axis_index(call.names)]
    bits = to_wire(received)
    return from_wire(lax.select(here, bits, jnp.zeros_like(bits)), received.dtype)


def reduce_scatter(parts: jax.Array, call: Call) -> jax.Array:
    """Sum part q of all ranks on rank q."""
    return rank_sum(exchange(parts, call))


def reduce(x: jax.Array, call: Call) -> jax.Array:
    """Sum `x` over all ranks; the result is typed as equal on all of them."""
    if x.nbytes <= GATHER_AND_SUM_NBYTES or call.num_ranks <= 2:
        return rank_sum(gather(x, call, to="invarying"))
    part_elems = -(-x.size // call.num_ranks)
    flat = jnp.pad(to_wire(x).reshape(-1), (0, call.num_ranks * part_elems - x.size))
    parts = from_wire(flat.reshape(call.num_ranks, part_elems), x.dtype)
    mine = reduce_scatter(parts, call)
    total = gather(mine, call, to="invarying")
    return total.reshape(-1)[: x.size].reshape(x.shape)
