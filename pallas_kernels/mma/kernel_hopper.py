"""Fused decode and matrix product for Hopper: weights from shared memory straight into `wgmma`.

A block of the grid makes 128 rows (outputs) of y.T for one share of the depth. One warpgroup loads
(TMA), two decode and multiply. In a step of 256 depths each warp

    writes the exponents of its tile's patches into its part of the exponent plane,
    decodes its tile, 128 weights a lane, into the registers that are operand A of `wgmma`,
    puts the plane back,

while the tensor cores work. Only the sum over the depth shares is left to the caller, in their
order, so that results do not depend on the run.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format import (
    MMA_GROUP_ROWS,
    MMA_TILE_DEPTH,
    PATCH_WORDS_STEP,
    FloatSpec,
    words_per_group,
)
from pallas_kernels.lanes import Fragment, Words, device_function
from pallas_kernels.mma.decode_tile import (
    PLANE_NBYTES,
    WINDOW_WORDS,
    PatchLists,
    decode_groups,
    load_exponents,
    restore_plane,
    write_patches,
)

_COMPUTE_WARPGROUPS = 2
_OFFSET_WORDS = 20  # 9 pairs, in units of 16 bytes
_PLANE_ROWS = PLANE_NBYTES // 512 + 1  # one more for stores that go nowhere


def decode_matmul_transposed(
    streams: dict[str, jax.Array],
    x: jax.Array,
    *,
    spec: FloatSpec,
    rows: int,
    num_splits: int,
    num_stages: int,
    interpret: Any = False,
) -> jax.Array:
    """Partial products of y.T.

    Args:
        streams: of one matrix in an mma layout.
        x: [M, steps * 256], M 8, 16, 32 or 64, of the weights' dtype.
        spec: the float.
        rows: of the weights, padded to a multiple of 128.
        num_splits: shares of the depth.
        num_stages: steps in flight.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        y_t: float32 [num_splits, rows, M].
    """
    m, depth = x.shape
    steps = depth // MMA_TILE_DEPTH
    local = -(-steps // num_splits)
    per_group = words_per_group(spec)
    group_words = _COMPUTE_WARPGROUPS * 4 * per_group
    swizzled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

    def kernel(words, offsets, patches, rare, exponents, x_gmem, out, plane_smem):
        block, share = lax.axis_index("rows"), lax.axis_index("share")
        warpgroup = lax.axis_index("warpgroup")
        first_step = share * local

        def context(pipeline):
            @functools.partial(pl.run_scoped, acc=plgpu.ACC((64, m), jnp.float32))
            def _(acc):
                base, table = device_function(
                    load_exponents, memories=[exponents], results=[Words(), Words()]
                )
                plane = plane_smem.at[warpgroup]
                device_function(
                    fill_plane, memories=[plane], arguments=[(Words(), base)], writes=[0]
                )
                pipeline((acc, base, table))
                out[share, pl.ds(block * MMA_GROUP_ROWS + warpgroup * 64, 64)] = acc[...]

        def body(_, words_smem, offsets_smem, window_smem, x_smem, carry):
            acc, base, table = carry
            plane = plane_smem.at[warpgroup]
            half = plgpu.layout_cast(
                jnp.full((128,), warpgroup.astype(jnp.uint32)),
                plgpu.Layout.WG_STRIDED((128,), vec_size=1),
            )
            state = device_function(
                _write_patches,
                memories=[offsets_smem, window_smem, rare, plane],
                arguments=[(Words(), table), (Words(), half)],
                results=[Words()] * 4,
                writes=[3],
            )
            (weights,) = device_function(
                functools.partial(_decode, spec=spec),
                memories=[words_smem.at[pl.ds(warpgroup * 4, 4)], plane],
                results=[Fragment(MMA_TILE_DEPTH, spec.dtype)],
            )
            plgpu.wgmma(acc, weights, x_smem.T)
            device_function(
                _restore_plane,
                memories=[offsets_smem, window_smem, rare, plane],
                arguments=[(Words(), word) for word in (base, *state)],
                writes=[3],
            )
            plgpu.wgmma_wait(0)
            return carry

        def step_of(local_step):
            return first_step + local_step

        def group_of(local_step):
            return block * steps + step_of(local_step)

        plgpu.emit_pipeline_warp_specialized(
            body,
            grid=(local,),
            memory_registers=40,
            in_specs=[
                plgpu.BlockSpec(
                    (8, 4 * per_group // 4, 128),
                    lambda s: (group_of(s), 0, 0),
                    memory_space=plgpu.SMEM,
                ),
                plgpu.BlockSpec(
                    (pl.Element(_OFFSET_WORDS),),
                    lambda s: (16 * group_of(s),),
                    memory_space=plgpu.SMEM,
                ),
                plgpu.BlockSpec(
                    (pl.Element(WINDOW_WORDS // 8), pl.Element(8)),
                    lambda s: ((offsets[16 * group_of(s)] // 8).astype(jnp.int32), 0),
                    memory_space=plgpu.SMEM,
                ),
                plgpu.BlockSpec(
                    (m, MMA_TILE_DEPTH),
                    lambda s: (0, step_of(s)),
                    transforms=swizzled,
                    memory_space=plgpu.SMEM,
                ),
            ],
            wg_axis="warpgroup",
            num_compute_wgs=_COMPUTE_WARPGROUPS,
            max_concurrent_steps=num_stages,
            compute_context=context,
        )(words, offsets, patches, x_gmem)

    tiles = streams["words"].shape[0]
    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((num_splits, rows, m), jnp.float32),
        grid=(rows // MMA_GROUP_ROWS, num_splits),
        grid_names=("rows", "share"),
        num_threads=_COMPUTE_WARPGROUPS + 1,
        thread_name="warpgroup",
        scratch_types={
            "plane_smem": plgpu.SMEM((_COMPUTE_WARPGROUPS, _PLANE_ROWS, 128), jnp.uint32)
        },
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )(
        streams["words"].reshape(tiles, per_group, 128),
        streams["tile_offsets"].reshape(-1),
        streams["patches"].reshape(-1, PATCH_WORDS_STEP),
        streams["rare_entries"],
        streams["exponents"],
        x,
    )


def fill_plane(lanes, plane, base):
    """All bytes of a warpgroup's exponent plane to the base."""
    word = lanes.mul(base, lanes.const(0x01010101))
    at = lanes.mul(lanes.lane_in_group(), lanes.const(4))
    for row in range(PLANE_NBYTES // 512):
        lanes.store(plane, lanes.add(at, lanes.const(512 * row)), word, 32)


def _write_patches(lanes, offsets, window, rare, plane, table, warpgroup):
    return write_patches(lanes, PatchLists(offsets, window, rare), plane, table, warpgroup)


def _decode(lanes, words, plane, *, spec):
    return [[word for group in decode_groups(lanes, words, plane, spec) for word in group]]


def _restore_plane(lanes, offsets, window, rare, plane, base, *state):
    restore_plane(lanes, PatchLists(offsets, window, rare), plane, base, *state)
