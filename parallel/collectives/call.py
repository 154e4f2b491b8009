"""One call of a collective: over which axes, by which codec, from where."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from jax import lax

from pallas_kernels import ArgumentError
from parallel.collectives.axes import AxisName, axis_tuple
from parallel.wire import Codec, Site, caller_site, checked_codec


@dataclass(frozen=True, kw_only=True)
class Call:
    """What the legs of a collective need to know about the call they are part of.

    Attributes:
        names: mesh axes, slowest first; ranks count row by row.
        codec: what the caller asked for.
        site: who calls.
    """

    names: tuple[Hashable, ...]
    codec: Codec
    site: Site

    @property
    def num_ranks(self) -> int:
        """P, the number of ranks of the axes together."""
        return lax.axis_size(self.names)

    def transposed(self) -> "Call":
        """The call of the gradient."""
        return replace(self, site=self.site.transposed())


def open_call(op: str, axis_name: AxisName, codec: Codec) -> Call:
    """Check what all collectives have in common.

    Raises:
        ArgumentError: when an axis is not bound by an enclosing `jax.shard_map`, or the codec is
            none.
    """
    names = axis_tuple(axis_name)
    try:
        lax.axis_size(names)
    except NameError as error:
        raise ArgumentError(
            f"{op} needs a mesh axis of an enclosing jax.shard_map",
            got=f"axis_name={axis_name!r}",
            fix="call it inside jax.shard_map over a mesh with that axis",
        ) from error
    return Call(names=names, codec=checked_codec(codec), site=caller_site(op))
