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

from pallas_kernels import CompressedTensor, decoded_after
from zipjax.nn.compressed_param import CompressedParam
from zipjax.nn.pieces import decode_pieces


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
    params = {name: p for name, p in vars(layer).items() if isinstance(p, CompressedParam)}
    cut_dims = {name: param.get_metadata("cut_dims") for name, param in params.items()}

    # Recomputed in the backward pass: without it every decoded matrix of the model would live from
    # the forward pass to the backward pass, and nothing would be saved.
    @jax.checkpoint
    def run(tensors: dict[str, CompressedTensor], *args: Any) -> Any:
        arrays = {}
        for name, tensor in tensors.items():
            tensor = _after(tensor, args, bool(cut_dims[name]))
            # The product waits for its decoded matrix: fused with the decoder it may add in another
            # order than the plain layer's.
            arrays[name] = lax.optimization_barrier(decode_pieces(tensor, cut_dims[name]))
        return method(_Decoded(layer, arrays), *args, **kwargs)

    return run({name: param.get_value() for name, param in params.items()}, *args)


def _after(tensor: CompressedTensor, args: Any, is_cut: bool) -> CompressedTensor:
    """The tensor, its decoding made to wait for the inputs.

    XLA may decode the whole model first otherwise, or once for all steps of a loop.
    """
    inputs = [leaf for leaf in jax.tree.leaves(args) if isinstance(leaf, jax.Array)]
    if not inputs:
        return tensor
    # An element of the inputs, which older versions wait for, would have to travel over the mesh,
    # and cannot be taken at all where axes are explicit.
    if is_cut or jax.typeof(inputs[0]).sharding.mesh.size > 1:
        return lax.optimization_barrier((tensor, inputs[0]))[0]
    return decoded_after(tensor, inputs[0])


class _Decoded:
    """A layer whose compressed matrices read as arrays."""

    def __init__(self, layer: nnx.Module, arrays: dict[str, Any]):
        self._layer = layer
        self._arrays = arrays

    def __getattr__(self, name: str) -> Any:
        return self._arrays[name] if name in self._arrays else getattr(self._layer, name)
