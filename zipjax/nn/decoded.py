"""The seam between layers and codecs: a plain layer's own method runs on decoded matrices.

What a layer computes is written once, in Flax: its method is called with a stand-in for the layer
that answers with the decoded array where the layer has a compressed one. So the program is that of
the plain layer behind a decode, and its bits are the plain layer's.
"""

from collections.abc import Callable
from typing import Any

import jax
from flax import nnx
from jax import lax

from zipjax.nn.compressed_param import CompressedParam, decode_param


def call_decoded(method: Callable[..., Any], layer: nnx.Module, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the plain class of a layer with its matrices decoded.

    Args:
        method: unbound, of the plain class.
        layer: has `CompressedParam`s.
        *args: arrays; gradients go through them.
        **kwargs: anything else.

    Returns:
        What the method returns.
    """

    # Recomputed in the backward pass: without it every decoded matrix of the model would live from
    # the forward pass to the backward pass, and nothing would be saved.
    @jax.checkpoint
    def run(*args: Any) -> Any:
        return method(_Decoded(layer), *args, **kwargs)

    return run(*args)


class _Decoded:
    """A layer whose compressed matrices read as arrays."""

    def __init__(self, layer: nnx.Module):
        self._layer = layer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._layer, name)
        if not isinstance(value, CompressedParam):
            return value
        # The barrier keeps the compiler from fusing the decode into the product, which may then add
        # in another order than the plain layer's.
        return lax.optimization_barrier(decode_param(value))
