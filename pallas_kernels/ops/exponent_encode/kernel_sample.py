"""The kernel that samples every run for its base: a lane has a run, and reads its sample once.

It leaves to XLA what is about all runs, which is work of a few bytes a run: which lift misses
fewest, and the base of runs whose sample says nothing. `base_choice` says what is computed and why.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format.slot_layout import SlotLayout
from pallas_kernels.lanes import GROUP_LANES
from pallas_kernels.lanes.inline import device_function, in_lanes
from pallas_kernels.ops.exponent_encode.base_choice import choose_among
from pallas_kernels.ops.exponent_encode.kernel_exponents import sample_block


def choose_base(words: jax.Array, layout: SlotLayout, *, interpret: Any = False) -> jax.Array:
    """Choose the base of every run: what `base_choice.choose_base` gives for padded words.

    Args:
        words: uint16 or uint32 [num_elems], at least one.
        layout: the sizes.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        uint8 [T, 16, 16].
    """

    def kernel(words_gmem, *out):
        block = lax.axis_index("block")
        own = pl.ds(block * GROUP_LANES, GROUP_LANES)
        device_function(
            lambda lanes, *operands: sample_block(lanes, layout, *operands),
            memories=[words_gmem, *(ref.at[own] for ref in out)],
            arguments=[in_lanes(block, interpret=bool(interpret))],
            writes=[1, 2, 3],
            interpret=bool(interpret),
        )

    runs = layout.num_runs
    base, known, missed = plgpu.kernel(
        kernel,
        out_type=[
            jax.ShapeDtypeStruct((runs,), jnp.uint8),
            jax.ShapeDtypeStruct((runs,), jnp.uint8),
            jax.ShapeDtypeStruct((runs, 4), jnp.uint8),
        ],
        grid=(runs // GROUP_LANES,),
        grid_names=("block",),
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )(words)
    return choose_among(base, known, missed.astype(jnp.int32).sum(0, dtype=jnp.int32), layout)
