"""The twin of the bridge from Linen: a Linen module whose matrices are compressed."""

from collections.abc import Iterator, Mapping
from typing import Any

from flax import nnx
from flax.nnx import bridge
from jax import lax

from pallas_kernels import UnsupportedError
from zipjax.nn.compressed_param import CompressedParam, decode_param

_OWN = ("to_nnx__", "_pytree__")


class CompressedToNNX(bridge.ToNNX):
    """`nnx.bridge.ToNNX` whose parameters of two and more axes are `CompressedParam`s."""

    def __call__(self, *args: Any, mutable: Any = None, **kwargs: Any) -> Any:
        """Apply the Linen module to decoded parameters: the bits of `nnx.bridge.ToNNX`.

        Raises:
            UnsupportedError: `mutable` collections are asked for.
        """
        if mutable:
            raise UnsupportedError(
                "a compressed Linen module changes no variables",
                got=f"mutable={mutable!r}",
                fix="call zipjax.decompress_model first",
            )
        kwargs.setdefault("rngs", self.to_nnx__rngs)
        # A barrier as in `call_decoded`. Nothing is recomputed in a backward pass: what draws
        # random numbers cannot be run twice.
        arrays = {
            name: lax.optimization_barrier(decode_param(param))
            for name, param in bridged_params(self).items()
            if isinstance(param, CompressedParam)
        }
        return bridge.ToNNX.__call__(_plain(self, arrays), *args, **kwargs)


def bridged_params(layer: bridge.ToNNX) -> dict[str, nnx.Variable]:
    """The variables of the Linen module by their names in it, such as "Dense_0.kernel"."""
    own = {name: value for name, value in vars(layer).items() if not name.startswith(_OWN)}
    return dict(_walk(own, ""))


def _walk(node: Any, prefix: str) -> Iterator[tuple[str, nnx.Variable]]:
    if isinstance(node, nnx.Variable):
        yield prefix, node
    elif isinstance(node, Mapping):
        for name, value in node.items():
            yield from _walk(value, f"{prefix}.{name}" if prefix else name)


def _plain(layer: bridge.ToNNX, arrays: dict[str, Any]) -> bridge.ToNNX:
    """A plain bridge for one call."""

    def restore(node: Any, prefix: str) -> Any:
        if isinstance(node, CompressedParam):
            return node.get_metadata("plain").restore(arrays[prefix])
        if isinstance(node, Mapping):
            return {name: restore(value, f"{prefix}.{name}") for name, value in node.items()}
        return node

    plain = bridge.ToNNX(layer.to_nnx__module)
    for name, value in vars(layer).items():
        if not name.startswith(_OWN):
            setattr(plain, name, nnx.data(restore(value, name)))
    return plain
