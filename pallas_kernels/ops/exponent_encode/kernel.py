"""The kernel that encodes all but the far list: 128 groups a block, 128 lanes.

As in decoding, every stream is read or written once, in whole sectors; the escapes of a block meet
in shared memory, 8 KiB and 128 bytes for each slot of a group.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format.slot_layout import UNIT_ELEMS, SlotLayout
from pallas_kernels.lanes.inline import device_function, in_lanes
from pallas_kernels.ops.exponent_encode.kernel_escapes import Escapes
from pallas_kernels.ops.exponent_encode.kernel_units import encode_block
from pallas_kernels.slots import BLOCK_GROUPS, MASKS_NBYTES, num_blocks


def encode_near(
    words: jax.Array, base: jax.Array, layout: SlotLayout, *, interpret: Any = False
) -> dict[str, jax.Array]:
    """Every stream but `side`, and what belongs in the far list.

    Args:
        words: uint16 or uint32 [num_elems], at least one.
        base: uint8 [T, 16, 16].
        layout: the sizes.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        the streams; `num_listed`, uint16 [G]; and `listed`, uint16 [G, 16], as
        `far_list.list_marked` takes them.
    """
    groups = layout.num_tiles * layout.run_elems
    u16 = np.dtype(np.uint16)
    specs = {name: spec for name, spec in layout.streams().items() if name != "side"}
    specs |= {"num_listed": (u16, (groups,)), "listed": (u16, (groups, UNIT_ELEMS))}
    names = tuple(specs)

    def kernel(words_gmem, base_gmem, *refs):
        memories = [words_gmem, base_gmem, *refs]
        device_function(
            _encode_block(layout, names),
            memories=memories,
            arguments=[in_lanes(lax.axis_index("block"), interpret=bool(interpret))],
            writes=range(2, len(memories)),
            interpret=bool(interpret),
        )

    flat = plgpu.kernel(
        kernel,
        out_type=[jax.ShapeDtypeStruct((int(np.prod(s)),), d) for d, s in specs.values()],
        grid=(num_blocks(layout),),
        grid_names=("block",),
        scratch_types=[
            plgpu.SMEM((MASKS_NBYTES // 4,), jnp.uint32),
            plgpu.SMEM((MASKS_NBYTES // 4,), jnp.uint32),
            plgpu.SMEM((BLOCK_GROUPS * layout.num_slots // 4,), jnp.uint32),
        ],
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )(words, base.reshape(-1))
    return {name: array.reshape(specs[name][1]) for name, array in zip(names, flat, strict=True)}


def _encode_block(layout: SlotLayout, names: tuple[str, ...]) -> Callable[..., None]:
    def encode(lanes, words, base, *operands):
        *arrays, near, far, places, block = operands
        out = dict(zip(names, arrays, strict=True))
        encode_block(lanes, layout, words, base, Escapes(near, far, places), out, block)

    return encode
