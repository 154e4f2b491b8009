"""The loop that the fused kernels share: tiles stream in, their escapes one step ahead.

A block of the grid goes through tiles of 128 rows, 256 depths a step. One warpgroup loads stored
words (TMA), two decode. In a step each warp

    writes the exponents of its tile's escapes into its part of the exponent plane,
    starts loading the escapes of the next step, and where those of the one after it are,
    decodes its tile into registers, and does with it what the kernel is for,
    puts the plane back.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels.format import MMA_GROUP_TILES, FloatSpec, words_per_group
from pallas_kernels.lanes.inline import Words, device_function, in_lanes
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

NUM_THREADS = COMPUTE_WARPGROUPS + 1
THREAD_NAME = "warpgroup"
_FOUR = (Words(),) * 4


class StreamRefs(NamedTuple):
    """A tensor's streams in device memory, as a kernel has them (`stream_operands`)."""

    words: Any
    offsets: Any
    patches: Any
    rare: Any
    exponents: Any


def stream_operands(streams: dict[str, Any], spec: FloatSpec) -> StreamRefs:
    """The streams of a tensor in an mma layout, in the shapes that a kernel takes."""
    return StreamRefs(
        streams["words"].reshape(-1, words_per_group(spec), 128),
        streams["tile_offsets"].reshape(-1),
        streams["patches"],
        streams["rare_entries"],
        streams["exponents"],
    )


def tile_kernel(
    body: Callable[..., None],
    out_type: jax.ShapeDtypeStruct,
    grid: dict[str, int],
    *,
    num_threads: int,
    interpret: Any,
) -> Callable[..., jax.Array]:
    """A kernel over a grid of named axes, with the exponent planes of its decoding warpgroups.

    Args:
        body: takes the refs of its operands, of its result, and `plane_smem`.
        out_type: of the result.
        grid: size of each axis by name.
        num_threads: warpgroups of a block.
        interpret: Pallas' interpret parameters, or False.
    """
    planes = plgpu.SMEM((COMPUTE_WARPGROUPS, PLANE_NBYTES // 512, 128), jnp.uint32)
    return plgpu.kernel(
        body,
        out_type=out_type,
        grid=tuple(grid.values()),
        grid_names=tuple(grid),
        num_threads=num_threads,
        thread_name=THREAD_NAME,
        scratch_types={"plane_smem": planes},
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
        interpret=interpret,
    )


class EscapeFunctions(NamedTuple):
    """What a step does with escapes, as calls from the body of a kernel.

    `lists` are the words that a step hands to the next: its tile's escapes, and where the following
    tile's are.

    Attributes:
        prepare: `prepare(first_group) -> base, table, lists`; fills the plane.
        write: `write(table, lists, later_group) -> addresses, next lists`.
        restore: `restore(base, lists, addresses)`.
    """

    prepare: Callable[[Any], tuple[Any, Any, list[Any]]]
    write: Callable[[Any, Sequence[Any], Any], tuple[list[Any], list[Any]]]
    restore: Callable[[Any, Sequence[Any], Sequence[Any]], None]


def escape_functions(
    call: Callable[..., Any], refs: StreamRefs, plane: Any, warpgroup: Any, *, interpret: bool
) -> EscapeFunctions:
    """For one warpgroup of a kernel; `call` is `device_function`."""

    word_of = functools.partial(in_lanes, interpret=interpret)
    half = word_of(warpgroup)

    def ends_of(group: Any) -> list[Any]:
        arguments = [half, word_of(group)]
        return call(load_ends, memories=[refs.offsets], arguments=arguments, results=_FOUR)

    def escapes_of(ends: Sequence[Any]) -> list[Any]:
        arguments = [(Words(), word) for word in ends]
        return call(_load_escapes, memories=[refs.patches], arguments=arguments, results=_FOUR)

    def prepare(first_group: Any) -> tuple[Any, Any, list[Any]]:
        base, table = call(
            _prepare, memories=[refs.exponents, plane], results=(Words(),) * 2, writes=[1]
        )
        return base, table, [*escapes_of(ends_of(first_group)), *ends_of(first_group + 1)]

    def write(table: Any, lists: Sequence[Any], later: Any) -> tuple[list[Any], list[Any]]:
        addresses = call(
            _write_escapes,
            memories=[refs.rare, plane],
            arguments=[(Words(), word) for word in (table, *lists[:4])],
            results=_FOUR,
            writes=[1],
        )
        return addresses, [*escapes_of(lists[4:]), *ends_of(later)]

    def restore(base: Any, lists: Sequence[Any], addresses: Sequence[Any]) -> None:
        call(
            _restore_plane,
            memories=[refs.rare, plane],
            arguments=[(Words(), word) for word in (base, *lists[:4], *addresses)],
            writes=[1],
        )

    return EscapeFunctions(prepare, write, restore)


def decode_steps(
    refs: StreamRefs,
    plane: Any,
    warpgroup: Any,
    first_group: Any,
    *,
    spec: FloatSpec,
    num_steps: int,
    num_stages: int,
    scope: Callable[[Callable[[Any], Any]], None],
    consume: Callable[..., Any],
    wait: Callable[[], None] = lambda: None,
    operands: Sequence[tuple[Any, Any]] = (),
    interpret: bool = False,
) -> None:
    """Go through `num_steps` groups of eight tiles from `first_group` on.

    Args:
        refs: the streams.
        plane: this warpgroup's exponent plane.
        warpgroup: 0 or 1 where tiles are decoded.
        first_group: of the tiles.
        spec: the float.
        num_steps: how many groups.
        num_stages: steps in shared memory at once.
        scope: `scope(run)` calls `run(state)` with the first state, and takes the last from it.
        consume: `consume(call, index, state, tiles, plane, *blocks)` returns the next state;
            `call` is `device_function`, `index` the step, `tiles` the warpgroup's stored words,
            `blocks` what was loaded of `operands`.
        wait: until shared memory may be written again.
        operands: more to load at each step: a block spec and a ref each.
        interpret: whether this is Pallas' interpret mode.
    """
    call = functools.partial(device_function, interpret=interpret)
    escapes = escape_functions(call, refs, plane, warpgroup, interpret=interpret)

    def context(pipeline: Callable[[Any], Any]) -> None:
        base, table, lists = escapes.prepare(first_group)
        scope(lambda state: pipeline((state, base, table, *lists))[0])

    def body(index: Any, words_smem: Any, *rest: Any) -> Any:
        *blocks, carry = rest
        state, base, table, *lists = carry
        addresses, following = escapes.write(table, lists, first_group + 2 + index[0])
        tiles = words_smem.at[pl.ds(warpgroup * 4, 4)]
        state = consume(call, index[0], state, tiles, plane, *blocks)
        escapes.restore(base, lists, addresses)
        wait()
        return (state, base, table, *following)

    words_spec = plgpu.BlockSpec(
        (MMA_GROUP_TILES, words_per_group(spec), 128),
        lambda s: (first_group + s, 0, 0),
        memory_space=plgpu.SMEM,
    )
    plgpu.emit_pipeline_warp_specialized(
        body,
        grid=(num_steps,),
        memory_registers=40,
        in_specs=[words_spec, *(block_spec for block_spec, _ in operands)],
        wg_axis=THREAD_NAME,
        num_compute_wgs=COMPUTE_WARPGROUPS,
        max_concurrent_steps=num_stages,
        compute_context=context,
    )(refs.words, *(ref for _, ref in operands))


def _prepare(lanes, exponents, plane):
    base, table = load_exponents(lanes, exponents)
    fill_plane(lanes, plane, base)
    lanes.sync_warp()
    return [base, table]


def _load_escapes(lanes, patches, *ends):
    pairs, *rare = load_escapes(lanes, patches, Ends(*ends))
    return [*pairs, *rare]


def _write_escapes(lanes, rare, plane, table, *escapes):
    return write_escapes(lanes, rare, plane, table, _escapes(escapes))


def _restore_plane(lanes, rare, plane, base, *words):
    restore_plane(lanes, rare, plane, base, _escapes(words[:4]), words[4:])


def _escapes(words):
    return Escapes(words[:2], *words[2:])
