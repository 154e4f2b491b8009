"""Which tensor-core instruction multiplies decoded tiles, and how it wants its other operand.

`Wgmma` is Hopper's: asynchronous, reads x from shared memory once a warpgroup. `Mma` is the
instruction that every NVIDIA GPU since Ampere has, Blackwell included: each warp holds both
operands in registers, so x is read from shared memory by every warp.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format import MMA_TILE_DEPTH, FloatSpec
from pallas_kernels.lanes import Lanes, Memory, Word
from pallas_kernels.lanes.inline import Fragment, in_registers
from pallas_kernels.mma.decode_tile import decode_groups, decode_words

_DEPTH_PER_MMA = 16
_LOADS_PER_STEP = 8  # of four words: two mma of depth 16


class Product(Protocol):
    """How a block of `columns` columns of x meets decoded weights."""

    @property
    def columns(self) -> int:
        """Columns of a block."""

    def operand(self, x: jax.Array) -> jax.Array:
        """Arrange x [C, m, steps * 256] for the kernel."""

    def num_steps(self, operand: jax.Array) -> int:
        """Steps of 256 depths in an arranged operand."""

    def block_spec(self, first_step: Any) -> Any:
        """The part of the operand of one column block that a step needs."""

    def accumulate(self, run: Callable[[Any], None], *, interpret: bool) -> None:
        """Call `run` with a zero accumulator."""

    def multiply(
        self, call: Any, acc: Any, tiles: Any, plane: Any, x_smem: Any, spec: FloatSpec
    ) -> Any:
        """Decode four tiles and add their product with x; returns the accumulator."""

    def wait(self) -> None:
        """Until shared memory may be written again."""

    def result(self, acc: Any) -> Any:
        """The accumulator as an array float32 [64, m]."""


@dataclasses.dataclass(frozen=True)
class Wgmma:
    """`wgmma.m64nMk16`, weights from registers; m a multiple of 8 up to 64."""

    columns: int

    def operand(self, x: jax.Array) -> jax.Array:
        """See `Product`."""
        return x

    def num_steps(self, operand: jax.Array) -> int:
        """See `Product`."""
        return operand.shape[-1] // MMA_TILE_DEPTH

    def block_spec(self, first_step: Any) -> Any:
        """See `Product`."""
        return plgpu.BlockSpec(
            (self.columns, MMA_TILE_DEPTH),
            lambda s: (0, first_step + s),
            transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)),
            memory_space=plgpu.SMEM,
        )

    def accumulate(self, run: Callable[[Any], None], *, interpret: bool) -> None:
        """See `Product`."""
        pl.run_scoped(run, plgpu.ACC((64, self.columns), jnp.float32))

    def multiply(
        self, call: Any, acc: Any, tiles: Any, plane: Any, x_smem: Any, spec: FloatSpec
    ) -> Any:
        """See `Product`; few calls, so that descriptors are made once: the whole depth is 64
        registers of weights, which beside 44 of stored words is what a lane has room for."""
        num_parts = 1 if spec.mantissa_bits == 7 else 2
        depth = MMA_TILE_DEPTH // num_parts
        parts = call(
            functools.partial(_decode, spec=spec, num_parts=num_parts),
            memories=[tiles, plane],
            results=[Fragment(depth, spec.dtype)] * num_parts,
        )
        for index, weights in enumerate(parts):
            plgpu.wgmma(acc, weights, x_smem.at[:, pl.ds(index * depth, depth)].T)
        return acc

    def wait(self) -> None:
        """See `Product`."""
        plgpu.wgmma_wait(0)

    def result(self, acc: Any) -> Any:
        """See `Product`."""
        return acc[...]


@dataclasses.dataclass(frozen=True)
class Mma:
    """`mma.m16n8k16`; m a multiple of 8."""

    columns: int

    def operand(self, x: jax.Array) -> jax.Array:
        """uint32 [C, steps, m, 128]: fragments of operand B, four words a lane and load.

        Lane 4 r + q holds x[8 j + r, 16 s + 2 q + (0, 1, 8, 9)] of column tile j and mma s.
        """
        blocks, m, depth = x.shape
        pairs = lax.bitcast_convert_type(x.reshape(blocks, m, depth // 2, 2), jnp.uint32)
        # [C, j, r, step, load, mma of the load, half, q]
        split = pairs.reshape(blocks, m // 8, 8, depth // MMA_TILE_DEPTH, _LOADS_PER_STEP, 2, 2, 4)
        return split.transpose(0, 3, 1, 4, 2, 7, 5, 6).reshape(blocks, -1, m, 128)

    def num_steps(self, operand: jax.Array) -> int:
        """See `Product`."""
        return operand.shape[1]

    def block_spec(self, first_step: Any) -> Any:
        """See `Product`."""
        return plgpu.BlockSpec(
            (1, self.columns, 128), lambda s: (first_step + s, 0, 0), memory_space=plgpu.SMEM
        )

    def accumulate(self, run: Callable[[Any], None], *, interpret: bool) -> None:
        """See `Product`."""
        kind = Fragment(self.columns, jnp.float32)
        run(in_registers(jnp.zeros(kind.shape, jnp.float32), kind, interpret=interpret))

    def multiply(
        self, call: Any, acc: Any, tiles: Any, plane: Any, x_smem: Any, spec: FloatSpec
    ) -> Any:
        """See `Product`."""
        kind = Fragment(self.columns, jnp.float32)
        (acc,) = call(
            functools.partial(_decode_and_multiply, spec=spec, columns=self.columns),
            memories=[tiles, plane, x_smem],
            arguments=[(kind, acc)],
            results=[kind],
        )
        return acc

    def wait(self) -> None:
        """See `Product`; nothing is asynchronous here."""

    def result(self, acc: Any) -> Any:
        """See `Product`."""
        return acc


def _decode(
    lanes: Lanes, words: Memory, plane: Memory, *, spec: FloatSpec, num_parts: int
) -> list[list[Word]]:
    """A step's weights as operands A, [64, 256 / num_parts] each."""
    groups = decode_groups(lanes, words, plane, spec)
    all_words = [word for group in groups for word in group]
    size = len(all_words) // num_parts
    return [all_words[i * size : (i + 1) * size] for i in range(num_parts)]


def _decode_and_multiply(
    lanes: Lanes,
    words: Memory,
    plane: Memory,
    x: Memory,
    acc: list[Word],
    *,
    spec: FloatSpec,
    columns: int,
) -> list[list[Word]]:
    """Add a step's product to the accumulator."""
    groups = decode_groups(lanes, words, plane, spec)
    return [_multiply_groups(lanes, groups, x, acc, spec, columns)]


def multiply_words(
    lanes: Lanes,
    stored: Callable[[int], Word],
    plane: Memory,
    x: Memory,
    acc: list[Word],
    *,
    spec: FloatSpec,
    columns: int,
) -> list[Word]:
    """The same for stored words in registers; x [columns, 128] may be in device memory."""
    return _multiply_groups(lanes, decode_words(lanes, stored, plane, spec), x, acc, spec, columns)


def _multiply_groups(
    lanes: Lanes,
    groups: list[list[Word]],
    x: Memory,
    acc: list[Word],
    spec: FloatSpec,
    columns: int,
) -> list[Word]:
    """By rising depth."""
    kind = "bf16" if spec.mantissa_bits == 7 else "f16"
    lane = lanes.and_(lanes.lane_in_group(), lanes.const(31))
    lane_offset = lanes.mul(lane, lanes.const(16))
    acc = list(acc)
    for number, group in enumerate(groups):
        for tile in range(columns // 8):
            own = slice(4 * tile, 4 * tile + 4)
            for load in range(2):
                row = tile * _LOADS_PER_STEP + 2 * number + load
                b = lanes.load_vector(x, lanes.add(lane_offset, lanes.const(512 * row)), 4)
                for half in range(2):
                    first = 4 * (2 * load + half)
                    a = group[first : first + 4]
                    acc[own] = lanes.multiply_tiles(acc[own], a, b[2 * half : 2 * half + 2], kind)
    return acc
