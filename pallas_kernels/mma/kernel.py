"""Fused decode and matrix product: weights from shared memory into operand A of the tensor cores.

A block of the grid makes 128 rows (outputs) of y.T for one share of the depth. One warpgroup loads
(TMA), two decode and multiply. In a step of 256 depths each warp

    writes the exponents of its tile's escapes into its part of the exponent plane,
    starts loading the escapes of the next step, and where those of the one after it are,
    decodes its tile, 128 weights a lane, into registers, and multiplies,
    puts the plane back.

Only the sum over the shares is left to the caller, in their order, so that results do not depend on
the run. Which tensor-core instruction multiplies is a `Product` (`mma.products`).
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format import MMA_GROUP_ROWS, MMA_GROUP_TILES, FloatSpec, words_per_group
from pallas_kernels.lanes.inline import Words, device_function
from pallas_kernels.lanes.inline import in_lanes as scalar_in_lanes
from pallas_kernels.mma.decode_tile import (
    COMPUTE_WARPGROUPS,
    PLANE_NBYTES,
    Ends,
    Escapes,
    fill_plane,
    load_ends,
    load_escapes,
    load_exponents,
    restore_plane,
    write_escapes,
)
from pallas_kernels.mma.products import Product

_ESCAPES = (Words(),) * 4
_ENDS = (Words(),) * 4
_ADDRESSES = (Words(),) * 4


def decode_matmul_transposed(
    streams: dict[str, jax.Array],
    x: jax.Array,
    block_matrix: jax.Array,
    *,
    spec: FloatSpec,
    product: Product,
    rows: int,
    num_splits: int,
    num_stages: int,
    interpret: Any = False,
) -> jax.Array:
    """Partial products of y.T for blocks of columns, each with one of the stored matrices.

    Args:
        streams: of E matrices in an mma layout, each of `rows` x steps * 256 after padding.
        x: as `product.operand` arranges it: [C blocks of m columns, ...].
        block_matrix: int32 [C], which matrix a block of columns multiplies.
        spec: the float.
        product: which instruction multiplies, and how many columns m a block has.
        rows: of the weights, padded to a multiple of 128.
        num_splits: shares of the depth; divides the number of steps.
        num_stages: steps in flight.
        interpret: Pallas' interpret parameters, or False.

    Returns:
        y_t: float32 [num_splits, C, rows, m].
    """
    m, blocks = product.columns, block_matrix.shape[0]
    steps = product.num_steps(x)
    groups, local = rows // MMA_GROUP_ROWS, steps // num_splits
    per_group = words_per_group(spec)
    call = functools.partial(device_function, interpret=bool(interpret))
    in_lanes = functools.partial(scalar_in_lanes, interpret=bool(interpret))

    def kernel(words, offsets, patches, rare, exponents, x_gmem, matrix_gmem, out, plane_smem):
        column, group = lax.axis_index("columns"), lax.axis_index("rows")
        share, warpgroup = lax.axis_index("share"), lax.axis_index("warpgroup")
        first_step = share * local
        first_group = (matrix_gmem[column] * groups + group) * steps + first_step
        plane, half = plane_smem.at[warpgroup], in_lanes(warpgroup)

        def context(pipeline):
            base, table = call(
                _prepare, memories=[exponents, plane], results=(Words(),) * 2, writes=[1]
            )
            escapes = call(
                _first_escapes,
                memories=[offsets, patches],
                arguments=[half, in_lanes(first_group)],
                results=_ESCAPES,
            )
            ends = call(
                load_ends,
                memories=[offsets],
                arguments=[half, in_lanes(first_group + 1)],
                results=_ENDS,
            )

            def run(acc):
                final, *_ = pipeline((acc, base, table, *escapes, *ends))
                at = pl.ds(group * MMA_GROUP_ROWS + warpgroup * 64, 64)
                out[share, column, at] = product.result(final)

            product.accumulate(run, interpret=bool(interpret))

        def body(index, words_smem, x_smem, carry):
            acc, base, table, *lists = carry
            own = [(Words(), word) for word in lists[:4]]
            addresses = call(
                _write_escapes,
                memories=[rare, plane],
                arguments=[(Words(), table), *own],
                results=_ADDRESSES,
                writes=[1],
            )
            following = call(
                _load_escapes,
                memories=[patches],
                arguments=[(Words(), word) for word in lists[4:]],
                results=_ESCAPES,
            )
            ends = call(
                load_ends,
                memories=[offsets],
                arguments=[half, in_lanes(first_group + 2 + index[0])],
                results=_ENDS,
            )
            tiles = words_smem.at[pl.ds(warpgroup * 4, 4)]
            acc = product.multiply(call, acc, tiles, plane, x_smem, spec)
            call(
                _restore_plane,
                memories=[rare, plane],
                arguments=[(Words(), base), *own, *((Words(), word) for word in addresses)],
                writes=[1],
            )
            product.wait()
            return (acc, base, table, *following, *ends)

        plgpu.emit_pipeline_warp_specialized(
            body,
            grid=(local,),
            memory_registers=40,
            in_specs=[
                plgpu.BlockSpec(
                    (MMA_GROUP_TILES, per_group, 128),
                    lambda s: (first_group + s, 0, 0),
                    memory_space=plgpu.SMEM,
                ),
                product.block_spec(first_step),
            ],
            wg_axis="warpgroup",
            num_compute_wgs=COMPUTE_WARPGROUPS,
            max_concurrent_steps=num_stages,
            compute_context=context,
        )(words, x_gmem.at[column])

    return plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((num_splits, blocks, rows, m), jnp.float32),
        grid=(blocks, groups, num_splits),
        grid_names=("columns", "rows", "share"),
        num_threads=COMPUTE_WARPGROUPS + 1,
        thread_name="warpgroup",
        scratch_types={
            "plane_smem": plgpu.SMEM((COMPUTE_WARPGROUPS, PLANE_NBYTES // 512, 128), jnp.uint32)
        },
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )(
        streams["words"].reshape(-1, per_group, 128),
        streams["tile_offsets"].reshape(-1),
        streams["patches"],
        streams["rare_entries"],
        streams["exponents"],
        x,
        block_matrix,
    )


def _prepare(lanes, exponents, plane):
    base, table = load_exponents(lanes, exponents)
    fill_plane(lanes, plane, base)
    lanes.sync_warp()
    return [base, table]


def _first_escapes(lanes, offsets, patches, warpgroup, group):
    return _load_escapes(lanes, patches, *load_ends(lanes, offsets, warpgroup, group))


def _load_escapes(lanes, patches, *ends):
    pairs, *rare = load_escapes(lanes, patches, Ends(*ends))
    return [*pairs, *rare]


def _write_escapes(lanes, rare, plane, table, *escapes):
    return write_escapes(lanes, rare, plane, table, _escapes(escapes))


def _restore_plane(lanes, rare, plane, base, *words):
    restore_plane(lanes, rare, plane, base, _escapes(words[:4]), words[4:])


def _escapes(words):
    return Escapes(words[:2], *words[2:])
