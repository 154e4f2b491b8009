"""The fused product without TMA and without barriers, for Ampere and Ada.

As `mma.kernel_matmul`, but each lane loads its own stored words and operands from device memory
straight into registers, the words a step before they are needed; only the exponent plane is in
shared memory. An SM of these GPUs has less bandwidth to keep up with (a 4090 3 bytes a clock, an
A100 13, an H200 18), so one step of look-ahead is enough on paper.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from pallas_kernels.format import MMA_GROUP_ROWS, FloatSpec, words_per_group
from pallas_kernels.lanes.inline import Fragment, Words, device_function, in_lanes, in_registers
from pallas_kernels.mma.decode_tile import COMPUTE_WARPGROUPS, load_words
from pallas_kernels.mma.products import multiply_words
from pallas_kernels.mma.steps import (
    THREAD_NAME,
    StreamRefs,
    escape_functions,
    stream_operands,
    tile_kernel,
)


def decode_matmul_transposed_direct(
    streams: dict[str, jax.Array],
    x: jax.Array,
    block_matrix: jax.Array,
    *,
    spec: FloatSpec,
    columns: int,
    rows: int,
    num_splits: int,
    interpret: Any = False,
) -> jax.Array:
    """See `mma.kernel_matmul.decode_matmul_transposed`; x as `products.Mma.operand` arranges it."""
    blocks, steps = block_matrix.shape[0], x.shape[1]
    groups, local = rows // MMA_GROUP_ROWS, steps // num_splits
    call = functools.partial(device_function, interpret=bool(interpret))
    word_of = functools.partial(in_lanes, interpret=bool(interpret))
    kind = Fragment(columns, jnp.float32)
    stored = (Words(),) * (4 * words_per_group(spec))

    def kernel(words, offsets, patches, rare, exponents, x_gmem, matrix_gmem, out, plane_smem):
        column, group = lax.axis_index("columns"), lax.axis_index("rows")
        share, warpgroup = lax.axis_index("share"), lax.axis_index(THREAD_NAME)
        first_step = share * local
        first_group = (matrix_gmem[column] * groups + group) * steps + first_step
        plane = plane_smem.at[warpgroup]
        refs = StreamRefs(words, offsets, patches, rare, exponents)
        escapes = escape_functions(call, refs, plane, warpgroup, interpret=bool(interpret))

        def words_of(number):
            return call(
                functools.partial(_load_words, spec),
                memories=[words],
                arguments=[word_of(number), word_of(warpgroup)],
                results=stored,
            )

        def step(index, carry):
            acc, held, lists = carry[0], carry[1 : 1 + len(stored)], carry[1 + len(stored) :]
            addresses, lists_after = escapes.write(table, lists, first_group + 2 + index)
            following = words_of(jnp.minimum(first_group + index + 1, first_group + local - 1))
            (acc,) = call(
                functools.partial(_multiply, spec, columns),
                memories=[plane, x_gmem.at[column, first_step + index]],
                arguments=[*((Words(), word) for word in held), (kind, acc)],
                results=[kind],
            )
            escapes.restore(base, lists, addresses)
            return (acc, *following, *lists_after)

        base, table, lists = escapes.prepare(first_group)
        zero = in_registers(jnp.zeros(kind.shape, jnp.float32), kind, interpret=bool(interpret))
        carry = (zero, *words_of(first_group), *lists)
        acc, *_ = lax.fori_loop(0, local, step, carry)
        out[share, column, pl.ds(group * MMA_GROUP_ROWS + warpgroup * 64, 64)] = acc

    return tile_kernel(
        kernel,
        jax.ShapeDtypeStruct((num_splits, blocks, rows, columns), jnp.float32),
        {"columns": blocks, "rows": groups, "share": num_splits},
        num_threads=COMPUTE_WARPGROUPS,
        interpret=interpret,
    )(*stream_operands(streams, spec), x, block_matrix)


def _load_words(spec, lanes, words, group, warpgroup):
    return load_words(lanes, words, group, warpgroup, spec)


def _multiply(spec, columns, lanes, plane, x, *arguments):
    *held, acc = arguments
    return [multiply_words(lanes, held.__getitem__, plane, x, acc, spec=spec, columns=columns)]
