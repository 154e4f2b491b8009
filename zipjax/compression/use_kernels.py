"""`use_kernels`: linear layers of a compressed model multiply by the GPU's fused kernel."""

from typing import Any

from flax import nnx

from pallas_kernels import LAYOUT_MMA_T, ArgumentError, UnsupportedError, relayout
from zipjax.compression.inventory import Held, take_inventory
from zipjax.nn import CompressedLinear, CompressedParam
from zipjax.nn.pieces import num_lead_axes


def use_kernels(model: nnx.Module) -> list[str]:
    """Put matrices of linear layers in the layout of the fused kernels, for speed on a GPU.

    By default a compressed layer decodes its matrix and computes what the plain layer computes, bit
    for bit; on a GPU that moves more bytes than the plain layer does. After this, linear layers
    call `pallas_kernels.decode_matmul`, which on Hopper and Blackwell keeps the weights compressed
    all the way to the tensor cores. The weights are the same to the bit, but the kernel adds
    float32 products in an order of its own, so results are those of another matrix product, not the
    plain layer's bits. Without such a GPU they stay the plain layer's, only slower.

    Args:
        model: compressed (`compress_model`, `load_model`); changed in place, one matrix at a time.
            `decompress_model` undoes this too.

    Returns:
        Paths of the matrices that were moved: those of `nnx.Linear` layers, of 16-bit floats, and
        neither stacked nor cut over a mesh.

    Raises:
        ArgumentError: `model` is no module.
    """
    if not isinstance(model, nnx.Module):
        raise ArgumentError("model must be an nnx.Module", got=type(model).__name__)
    return [held.holders[0].variable_path for held in take_inventory(model) if _move(held)]


def _move(held: Held) -> bool:
    param: Any = held.variable
    is_linear = all(isinstance(holder.node, CompressedLinear) for holder in held.holders)
    if not (isinstance(param, CompressedParam) and is_linear):
        return False
    tensor = param.get_value()
    if num_lead_axes(tensor) or param.get_metadata("cut_dims"):
        return False
    try:
        moved = relayout(tensor, LAYOUT_MMA_T)
    except UnsupportedError:  # no matrix of 16-bit floats
        return False
    param.set_value(moved)
    return moved.layout == LAYOUT_MMA_T
