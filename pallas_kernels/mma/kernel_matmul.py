"""Fused decode and matrix product: weights from shared memory into operand A of the tensor cores.

A block of the grid makes 128 rows (outputs) of y.T for one share of the depth (`mma.steps`). Only
the sum over the shares is left to the caller, in their order, so that results do not depend on the
run. Which tensor-core instruction multiplies is a `Product` (`mma.products`).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from pallas_kernels.format import MMA_GROUP_ROWS, FloatSpec
from pallas_kernels.mma.products import Product
from pallas_kernels.mma.steps import (
    NUM_THREADS,
    THREAD_NAME,
    StreamRefs,
    decode_steps,
    stream_operands,
    tile_kernel,
)


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
    blocks, steps = block_matrix.shape[0], product.num_steps(x)
    groups, local = rows // MMA_GROUP_ROWS, steps // num_splits

    def kernel(words, offsets, patches, rare, exponents, x_gmem, matrix_gmem, out, plane_smem):
        column, group = lax.axis_index("columns"), lax.axis_index("rows")
        share, warpgroup = lax.axis_index("share"), lax.axis_index(THREAD_NAME)
        first_step = share * local

        def scope(run):
            def finish(acc):
                at = pl.ds(group * MMA_GROUP_ROWS + warpgroup * 64, 64)
                out[share, column, at] = product.result(run(acc))

            product.accumulate(finish, interpret=bool(interpret))

        def multiply(call, _, acc, tiles, plane, x_smem):
            return product.multiply(call, acc, tiles, plane, x_smem, spec)

        decode_steps(
            StreamRefs(words, offsets, patches, rare, exponents),
            plane_smem.at[warpgroup],
            warpgroup,
            (matrix_gmem[column] * groups + group) * steps + first_step,
            spec=spec,
            num_steps=local,
            num_stages=num_stages,
            scope=scope,
            consume=multiply,
            wait=product.wait,
            operands=[(product.block_spec(first_step), x_gmem.at[column])],
            interpret=bool(interpret),
        )

    return tile_kernel(
        kernel,
        jax.ShapeDtypeStruct((num_splits, blocks, rows, product.columns), jnp.float32),
        {"columns": blocks, "rows": groups, "share": num_splits},
        num_threads=NUM_THREADS,
        interpret=interpret,
    )(*stream_operands(streams, spec), x, block_matrix)
