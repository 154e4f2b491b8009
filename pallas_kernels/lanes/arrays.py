"""`Lanes` on arrays [128]: NumPy in tests, `jnp` inside Pallas' interpret mode."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from pallas_kernels.lanes.interface import GROUP_LANES, WARP_LANES, Memory, Word

_U32 = np.uint32


class ArrayMemory:
    """Memory as bytes; with NumPy, loads and stores are checked for bounds and alignment.

    Attributes:
        data: uint8 [n], NumPy or JAX; replaced (JAX) or written (NumPy) by stores.
    """

    def __init__(self, data: Any):
        """Take an array of any unsigned dtype as bytes."""
        self.data: Any
        if isinstance(data, np.ndarray):
            self.data = data.reshape(-1).view(np.uint8)
        elif data.dtype == jnp.uint8:
            self.data = data.reshape(-1)
        else:
            self.data = lax.bitcast_convert_type(data, jnp.uint8).reshape(-1)

    def check(self, offset: np.ndarray, nbytes: int, active: np.ndarray) -> None:
        """Refuse what a GPU would punish."""
        if isinstance(self.data, np.ndarray):
            at = offset[active]
            assert not (at % nbytes).any(), "a misaligned access"
            inside = (at >= 0) & (at + nbytes <= self.data.size)
            assert inside.all(), "an access out of bounds"


class MovedMemory(NamedTuple):
    """The memory from byte `index * stride` on."""

    memory: "ArrayMemory | MovedMemory"
    index: Word
    stride: int


def _resolved(memory: ArrayMemory | MovedMemory, offset: Word) -> tuple[ArrayMemory, Any]:
    """The memory itself, and offsets from its start: in 64 bits with NumPy."""
    if isinstance(offset, np.ndarray) and offset.dtype == _U32:
        offset = offset.view(np.int32).astype(np.int64)
    if isinstance(memory, ArrayMemory):
        return memory, offset
    wide = np.int64 if isinstance(offset, np.ndarray) else _U32
    return _resolved(memory.memory, offset + memory.index.astype(wide) * wide(memory.stride))


class ArrayLanes:
    """All lanes of a warpgroup at once, as uint32 [128]."""

    def __init__(self, xp: Any = np):
        """`xp` is numpy or jax.numpy."""
        self.xp = xp
        self._active = xp.ones(GROUP_LANES, bool)

    def const(self, value: int) -> Word:
        """See `Lanes`."""
        return self.xp.full(GROUP_LANES, value & 0xFFFFFFFF, _U32)

    def lane_in_group(self) -> Word:
        """See `Lanes`."""
        return self.xp.arange(GROUP_LANES, dtype=_U32)

    def add(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return a + b

    def sub(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return a - b

    def mul(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return a * b

    def and_(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return a & b

    def divide(self, a: Word, by: int) -> Word:
        """See `Lanes`."""
        return a // _U32(by)

    def divide_by(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return a // b

    def shl(self, a: Word, count: int) -> Word:
        """See `Lanes`."""
        return a << _U32(count)

    def shl_by(self, a: Word, count: Word) -> Word:
        """See `Lanes`."""
        return a << count

    def shr(self, a: Word, count: int) -> Word:
        """See `Lanes`."""
        return a >> _U32(count)

    def min(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return self.select_less(a, b, a, b)

    def select_less(self, a: Word, b: Word, then: Word, other: Word) -> Word:
        """See `Lanes`."""
        return self.xp.where(self._less(a, b), then, other)

    def masked(self, a: Word, mask: int, c: Word, table: int) -> Word:
        """See `Lanes`."""
        return self.logic(a, self.const(mask), c, table)

    def logic(self, a: Word, b: Word, c: Word, table: int) -> Word:
        """See `Lanes`."""
        out = self.const(0)
        for row in range(8):
            if table >> row & 1:
                terms = [x if row >> 2 - i & 1 else ~x for i, x in enumerate((a, b, c))]
                out = out | (terms[0] & terms[1] & terms[2])
        return out

    def pick_bytes(self, a: Word, selector: int) -> Word:
        """See `Lanes`."""
        return self.merge_bytes(a, self.const(0), selector)

    def merge_bytes(self, a: Word, b: Word, selector: int) -> Word:
        """See `Lanes`."""
        out = self.const(0)
        for byte in range(4):
            source = selector >> 4 * byte & 15
            picked = (a, b)[source % 8 // 4] >> _U32(8 * (source % 4)) & _U32(255)
            picked = picked if source < 8 else (picked >> _U32(7)) * _U32(255)
            out = out | picked << _U32(8 * byte)
        return out

    def popcount(self, a: Word) -> Word:
        """See `Lanes`."""
        if self.xp is np:
            return np.bitwise_count(a).astype(_U32)
        return lax.population_count(a)

    def lowest_bit(self, a: Word) -> Word:
        """See `Lanes`."""
        return self.popcount(~a & (a - _U32(1)))

    def multiply_add(self, a: Word, factor: int, c: Word) -> Word:
        """See `Lanes`."""
        return a * _U32(factor) + c

    def shuffle(self, a: Word, lane: Word) -> Word:
        """See `Lanes`."""
        first = self.lane_in_group() & _U32(GROUP_LANES - WARP_LANES)
        return a[first + (lane & _U32(WARP_LANES - 1))]

    def load(self, memory: Memory, offset: Word, bits: int) -> Word:
        """See `Lanes`."""
        return self._words(memory, offset, bits // 8)[0]

    def load_element(self, memory: Memory, index: Word) -> Word:
        """See `Lanes`."""
        return self.load(memory, self.shl(index, 2), 32)

    def load_vector(self, memory: Memory, offset: Word, count: int) -> Sequence[Word]:
        """See `Lanes`."""
        return self._words(memory, offset, 4 * count)

    def load_vector_element(self, memory: ArrayMemory, index: Word) -> Sequence[Word]:
        """See `Lanes`."""
        return self.load_vector(memory, self.shl(index, 4), 4)

    def store(self, memory: Memory, offset: Word, value: Word, bits: int) -> None:
        """See `Lanes`."""
        self._store(memory, offset, [value], bits // 8)

    def store_vector(self, memory: Memory, offset: Word, values: Sequence[Word]) -> None:
        """See `Lanes`."""
        self._store(memory, offset, values, 4 * len(values))

    def moved(self, memory: Memory, index: Word, stride: int) -> Memory:
        """See `Lanes`."""
        return MovedMemory(memory, index, stride)

    def when_less(self, a: Word, b: Word, body: Callable[[], None]) -> None:
        """See `Lanes`."""
        outer = self._active
        self._active = outer & self._less(a, b)
        body()
        self._active = outer

    def store_element(self, memory: ArrayMemory, index: Word, value: Word) -> None:
        """See `Lanes`."""
        self.store(memory, self.shl(index, 2), value, 32)

    def transpose_block(self, a: Word) -> Word:
        """See `Lanes`."""
        halves = self.xp.stack([a & _U32(0xFFFF), a >> _U32(16)], -1).reshape(4, 8, 8)
        swapped = halves.swapaxes(1, 2).reshape(GROUP_LANES, 2)
        return swapped[:, 0] | swapped[:, 1] << _U32(16)

    def sync_warp(self) -> None:
        """See `Lanes`; arrays are always in step."""

    def sync_group(self) -> None:
        """See `Lanes`; arrays are always in step."""

    def loop(
        self,
        start: Word,
        stop: Word,
        step: int,
        body: Callable[..., Sequence[Word] | None],
        writes: Sequence[ArrayMemory],
        carry: Sequence[Word] = (),
    ) -> Sequence[Word]:
        """See `Lanes`."""
        outer, state = self._active, list(carry)

        def run(j: Word, state: Sequence[Word]) -> list[Word]:
            self._active = outer & self._less(j, stop)
            following = body(j, *state) or ()
            kept = [self.xp.where(self._active, *p) for p in zip(following, state, strict=True)]
            self._active = outer
            return kept

        if self.xp is np:
            while (outer & self._less(start, stop)).any():
                state, start = run(start, state), start + _U32(step)
            return state

        def traced(loop: tuple[Word, list[Word], list[Any]]) -> tuple[Word, list[Word], list[Any]]:
            j, state, contents = loop
            for memory, data in zip(writes, contents, strict=True):
                memory.data = data
            state = run(j, state)
            return j + _U32(step), state, [memory.data for memory in writes]

        before = (start, state, [memory.data for memory in writes])
        _, state, contents = lax.while_loop(
            lambda loop: (outer & self._less(loop[0], stop)).any(), traced, before
        )
        for memory, data in zip(writes, contents, strict=True):
            memory.data = data
        return state

    def multiply_tiles(
        self, acc: Sequence[Word], a: Sequence[Word], b: Sequence[Word], kind: str
    ) -> Sequence[Word]:
        """See `Lanes`; float32 sums, in no particular order."""
        left, right = self._matrix(a, kind, "a"), self._matrix(b, kind, "b")
        total = self._float(self.xp.stack(acc)).reshape(2, 2, 4, 8, 4)  # row half, col, warp, r, q
        total = self.xp.moveaxis(total, (2, 0, 3, 4, 1), (0, 1, 2, 3, 4)).reshape(4, 16, 8)
        total = total + self.xp.matmul(left, right)
        parts = self.xp.moveaxis(
            total.reshape(4, 2, 8, 4, 2), (0, 1, 2, 3, 4), (2, 0, 3, 4, 1)
        ).reshape(4, GROUP_LANES)
        return list(self._bits(parts))

    def _matrix(self, words: Sequence[Word], kind: str, operand: str) -> Any:
        """Fragments as float32 matrices [4 warps, 16 rows, 16] (a) or [4 warps, 16, 8 columns]."""
        stacked = self.xp.stack(words)
        halves = self.xp.stack([stacked & _U32(0xFFFF), stacked >> _U32(16)], -1)
        dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.float16
        halves = halves.astype(np.uint16)
        values = halves.view(dtype) if self.xp is np else lax.bitcast_convert_type(halves, dtype)
        values = values.astype(np.float32)
        if operand == "a":  # [depth half, row half, warp, r, q, half]
            values = values.reshape(2, 2, 4, 8, 4, 2)
            return self.xp.transpose(values, (2, 1, 3, 0, 4, 5)).reshape(4, 16, 16)
        values = values.reshape(2, 4, 8, 4, 2)  # [depth half, warp, column, q, half]
        return self.xp.transpose(values, (1, 0, 3, 4, 2)).reshape(4, 16, 8)

    def _float(self, words: Any) -> Any:
        if self.xp is np:
            return np.ascontiguousarray(words).view(np.float32)
        return lax.bitcast_convert_type(words, jnp.float32)

    def _bits(self, floats: Any) -> Any:
        if self.xp is np:
            return np.ascontiguousarray(floats).view(_U32)
        return lax.bitcast_convert_type(floats, jnp.uint32)

    def _words(self, memory: Memory, offset: Word, nbytes: int) -> list[Word]:
        """What lanes read in one access, as words; lanes that are not active read anything."""
        memory, offset = _resolved(memory, offset)
        memory.check(offset, nbytes, self._active)
        rows = memory.data[: memory.data.size // nbytes * nbytes].reshape(-1, nbytes)
        at = self.xp.where(self._active, offset // nbytes, 0).astype(np.int32)
        parts = rows[at].reshape(GROUP_LANES, -1, min(nbytes, 4)).astype(_U32)
        shifts = self.xp.arange(parts.shape[-1], dtype=_U32)[None, None, :] * _U32(8)
        words = (parts << shifts).sum(-1, dtype=_U32)
        return [words[:, index] for index in range(words.shape[1])]

    def _store(self, memory: Memory, offset: Word, words: Sequence[Word], nbytes: int) -> None:
        """The low bytes of all words, one after the other, in active lanes."""
        memory, offset = _resolved(memory, offset)
        memory.check(offset, nbytes, self._active)
        for byte in range(nbytes):
            part = (words[byte // 4] >> _U32(byte % 4 * 8) & _U32(255)).astype(np.uint8)
            at = offset + offset.dtype.type(byte)
            if isinstance(memory.data, np.ndarray):
                memory.data[at[self._active]] = part[self._active]
            else:
                at = jnp.where(self._active, at.astype(jnp.int32), memory.data.size)
                memory.data = memory.data.at[at].set(part, mode="drop")

    def _less(self, a: Word, b: Word) -> Any:
        if isinstance(a, jax.Array) or isinstance(b, jax.Array):
            signed = [lax.bitcast_convert_type(jnp.asarray(x), jnp.int32) for x in (a, b)]
        else:
            signed = [x.view(np.int32) for x in (a, b)]
        return signed[0] < signed[1]
