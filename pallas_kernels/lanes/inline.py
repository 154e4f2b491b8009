"""A device function inside a Pallas kernel: inlined as MLIR, or run on arrays in interpret mode."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.lanes.arrays import ArrayLanes, ArrayMemory
from pallas_kernels.lanes.interface import GROUP_LANES, Word


@dataclasses.dataclass(frozen=True)
class Words:
    """A result or argument of one word a lane: uint32 [128]."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return (GROUP_LANES,)


@dataclasses.dataclass(frozen=True)
class Fragment:
    """A matrix [64, columns] in the registers of a warpgroup, as `wgmma` has it.

    16-bit floats are operand A, two to a word; float32 is the accumulator, one to a word. Register
    words come in the order [columns / 8, row half, word of two columns].
    """

    columns: int
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return (64, self.columns)

    @property
    def words_per_register(self) -> int:
        """Words of two neighbouring columns."""
        return 2 * np.dtype(self.dtype).itemsize // 4


Operand = Words | Fragment


def device_function(
    function: Callable[..., Any],
    *,
    memories: Sequence[Any],
    arguments: Sequence[tuple[Operand, Any]] = (),
    results: Sequence[Operand] = (),
    writes: Sequence[int] = (),
    interpret: bool = False,
) -> list[jax.Array]:
    """Call a device function from the body of a Mosaic GPU kernel.

    Args:
        function: `function(lanes, *memories, *arguments)`; an argument is a word, or the words of a
            fragment, and so are the results, which it returns as a list.
        memories: refs.
        arguments: arrays, each with what it is.
        results: what the function returns.
        writes: which of the memories it stores to.
        interpret: run it on arrays instead; for Pallas' interpret mode.

    Returns:
        arrays, one for each of `results`.
    """
    if interpret:
        return _run_on_arrays(function, memories, arguments, results, writes)
    kinds = tuple(kind for kind, _ in arguments)
    arg_types = (*(plgpu.RefType() for _ in memories), *(_layout(kind) for kind in kinds))
    out = tuple(plgpu.ShapeDtypeStruct(k.shape, _dtype(k), _layout(k)) for k in results)

    def inlined(_ctx: Any, *operands: Any) -> Any:
        from jax.experimental.mosaic.gpu import utils

        from pallas_kernels.lanes.mlir import MlirLanes

        pointers = [utils.memref_ptr(ref) for ref in operands[: len(memories)]]
        words = [
            _words_of(array, kind)
            for array, kind in zip(operands[len(memories) :], kinds, strict=True)
        ]
        returned = function(MlirLanes(), *pointers, *words)
        if not results:
            return None
        return tuple(_array_of(w, kind) for w, kind in zip(returned, results, strict=True))

    call = plgpu.inline_mgpu(arg_types=arg_types, return_type=out or None)(inlined)
    arrays = call(*memories, *(array for _, array in arguments))
    return list(arrays) if results else []


def in_registers(array: jax.Array, kind: Operand, *, interpret: bool = False) -> jax.Array:
    """The array in the registers that `kind` has it in; interpret mode has no registers."""
    return array if interpret else plgpu.layout_cast(array, _layout(kind))


def _layout(kind: Operand) -> Any:
    if isinstance(kind, Words):
        return plgpu.Layout.WG_STRIDED((GROUP_LANES,), vec_size=1)
    return plgpu.Layout.WGMMA


def _dtype(kind: Operand) -> Any:
    return jnp.uint32 if isinstance(kind, Words) else kind.dtype


def _words_of(array: Any, kind: Operand) -> Any:
    """The words in the registers of Mosaic's array."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import vector

    i32 = ir.IntegerType.get_signless(32)
    count = 1 if isinstance(kind, Words) else kind.words_per_register
    wide = ir.VectorType.get((count,), i32)
    words = []
    for register in array.registers.flat:
        cast = vector.bitcast(wide, register)
        words += [
            vector.extract(cast, dynamic_position=[], static_position=[i]) for i in range(count)
        ]
    return words[0] if isinstance(kind, Words) else words


def _array_of(words: Any, kind: Operand) -> Any:
    """Mosaic's array of words in registers."""
    from jax.experimental.mosaic import gpu as mgpu
    from jax.experimental.mosaic.gpu import utils
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import vector

    i32 = ir.IntegerType.get_signless(32)
    if isinstance(kind, Words):
        layout, words, count, target = _layout(kind).to_mgpu(), [words], 1, None
        signed = False
    else:
        layout, count, signed = mgpu.WGMMA_LAYOUT, kind.words_per_register, None
        target = ir.VectorType.get((2,), utils.dtype_to_ir_type(np.dtype(kind.dtype)))
    wide = ir.VectorType.get((count,), i32)
    registers = np.empty(len(words) // count, dtype=object)
    for index in range(len(registers)):
        register = vector.from_elements(wide, words[count * index : count * (index + 1)])
        registers[index] = register if target is None else vector.bitcast(target, register)
    return mgpu.FragmentedArray(
        _registers=registers.reshape(layout.registers_shape(kind.shape)),
        _layout=layout,
        _is_signed=signed,
    )


def _run_on_arrays(
    function: Callable[..., Any],
    memories: Sequence[Any],
    arguments: Sequence[tuple[Operand, Any]],
    results: Sequence[Operand],
    writes: Sequence[int],
) -> list[jax.Array]:
    contents = [ref[...] for ref in memories]
    handles = [ArrayMemory(data) for data in contents]
    words = [
        array if isinstance(kind, Words) else fragment_words(array, kind)
        for kind, array in arguments
    ]
    returned = function(ArrayLanes(jnp), *handles, *words)
    for index in writes:
        data = contents[index]
        stored = handles[index].data
        if data.dtype.itemsize > 1:
            stored = stored.reshape(*data.shape, data.dtype.itemsize)
            stored = lax.bitcast_convert_type(stored, data.dtype)
        memories[index][...] = stored.reshape(data.shape)
    return [
        words if isinstance(kind, Words) else fragment_matrix(words, kind)
        for words, kind in zip(returned or [], results, strict=True)
    ]


def fragment_matrix(words: Sequence[Word], kind: Fragment) -> Any:
    """The matrix [64, columns] that words [128] in registers stand for."""
    per = kind.words_per_register
    xp = np if isinstance(words[0], np.ndarray) else jnp
    stacked = xp.stack(words).reshape(-1, 2, per, 4, 8, 4)  # column / 8, row half, word, warp, r, q
    if per == 1:
        parts = xp.stack([stacked & np.uint32(0xFFFF), stacked >> np.uint32(16)], -1)
        parts = parts[:, :, 0].astype(np.uint16)
    else:
        parts = xp.moveaxis(stacked, 2, -1)
    parts = xp.transpose(parts, (2, 1, 3, 0, 4, 5)).reshape(kind.shape)
    if xp is np:
        return np.ascontiguousarray(parts).view(kind.dtype)
    return lax.bitcast_convert_type(parts, kind.dtype)


def fragment_words(matrix: Any, kind: Fragment) -> list[Word]:
    """Undo `fragment_matrix`."""
    unsigned = jnp.uint16 if kind.words_per_register == 1 else jnp.uint32
    parts = lax.bitcast_convert_type(matrix, unsigned).reshape(4, 2, 8, -1, 4, 2)
    parts = jnp.transpose(parts, (3, 1, 5, 0, 2, 4)).astype(jnp.uint32)
    if kind.words_per_register == 1:
        parts = parts[:, :, :1] | parts[:, :, 1:] << 16
    return list(parts.reshape(-1, GROUP_LANES))
