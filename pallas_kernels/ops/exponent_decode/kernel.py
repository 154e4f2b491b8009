"""The kernel that decodes all but the far elements: 128 groups a block, 128 lanes.

No pipeline and no TMA: each stream is read once, in whole sectors that a warp has next to each
other, with the loads of 16 rows in flight in every lane and several blocks on a multiprocessor.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format.slot_layout import SlotLayout
from pallas_kernels.lanes.inline import device_function, in_lanes
from pallas_kernels.ops.exponent_decode.kernel_units import decode_block
from pallas_kernels.slots import MASKS_NBYTES, num_blocks


def decode_near(
    streams: dict[str, jax.Array], layout: SlotLayout, *, interpret: Any = False
) -> jax.Array:
    """All words; the far ones with the exponent that their code alone says.

    Args:
        streams: the arrays that `layout.streams()` lists.
        layout: the sizes, of at least one element.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        uint16 or uint32 [num_elems].
    """
    names = tuple(layout.streams())

    def kernel(*refs):
        *arrays, out, masks = refs
        device_function(
            _decode_block(layout, names),
            memories=[*arrays, masks, out],
            arguments=[in_lanes(lax.axis_index("block"), interpret=bool(interpret))],
            writes=[len(arrays), len(arrays) + 1],
            interpret=bool(interpret),
        )

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((layout.num_elems,), layout.word_dtype),
        grid=(num_blocks(layout),),
        grid_names=("block",),
        scratch_types=[plgpu.SMEM((MASKS_NBYTES // 4,), jnp.uint32)],
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )(*(streams[name].reshape(-1) for name in names))


def _decode_block(layout: SlotLayout, names: tuple[str, ...]) -> Callable[..., None]:
    def decode(lanes, *operands):
        *arrays, masks, out, block = operands
        decode_block(lanes, layout, dict(zip(names, arrays, strict=True)), masks, out, block)

    return decode
