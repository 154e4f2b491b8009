"""The GPU kernels in the configurations that are shipped, with what each promises.

`kernels_static.py` compiles them. A factory here is named "kernel_cases:FUNCTION" and returns a
function and its abstract arguments (`zipjax.dryrun.Program`).
"""

import dataclasses
import functools
import math
from collections.abc import Mapping

import jax

from pallas_kernels import (
    CompressedTensor,
    Gpu,
    decode,
    decode_matmul,
    dtype_from_name,
    grouped_decode_matmul,
    stream_specs,
)
from pallas_kernels.ops.encode.mosaic_gpu import encode_words
from zipjax.dryrun import KernelCase, LoopWork

# Bars of a whole main loop on an H200, with patches of any length. At full bandwidth of its memory
# an SM must decode 13 weights a clock, for each of which it has 9.8 issue slots, 4.9 of the ALU
# pipe and 9.8 bytes of shared memory (docs/dryrun.md).
H200_UP_TO_16_ROWS = {
    "alu_instructions_per_weight": 2.0,
    "issue_slots_per_weight": 3.6,
    "smem_bytes_per_weight": 4.6,
}
H200_UP_TO_64_ROWS = {"smem_bytes_per_weight": 7.0}

STORED_BITS = {"bfloat16": 11, "float16": 14}  # of a weight in the main stream
GAUSSIAN_LISTS_BITS = 0.2  # patches and offsets; tests/pallas_kernels/test_mma_layout.py


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticCase:
    """A kernel and what is promised of it.

    Attributes:
        kernel: what is compiled.
        at_most: fields of its report and the most that they may be. That nothing is spilled is
            promised of all.
        uses_tensor_cores: whether its main loop must hold tensor-core instructions.
    """

    kernel: KernelCase
    at_most: Mapping[str, float] = dataclasses.field(default_factory=dict)
    uses_tensor_cores: bool = False


def cases(gpu: Gpu) -> list[StaticCase]:
    """All that is shipped for a GPU."""
    from kernel_cases_wire import wire_cases  # which takes `StaticCase` from here

    products = [
        product_case(gpu, name, dtype, rows)
        for name in ("decode_matmul", "grouped_decode_matmul")
        for dtype in ("bfloat16", "float16")
        for rows in (8, 16, 32, 64)
    ]
    decoders = [  # by TMA
        decode_case(dtype, layout)
        for dtype in ("bfloat16", "float16")
        for layout in ("mma16x256", "mma256x16")
    ]
    encoders = [
        encode_case(dtype, layout)
        for dtype in ("bfloat16", "float16")
        for layout in ("mma16x256", "mma256x16")
    ]
    tiles = decoders if gpu.compute_capability[0] >= 9 else []
    return products + tiles + encoders + wire_cases(gpu)


def product_case(gpu: Gpu, name: str, dtype: str, rows: int) -> StaticCase:
    """A fused product with so many rows of x. The bars are of bfloat16 on an H200."""
    reads_x_once = gpu.compute_capability[0] == 9  # wgmma; with mma the main loop loads x itself
    stored_nbytes = STORED_BITS[dtype] / 8
    at_most: Mapping[str, float] = {}
    if gpu.name == "H200" and dtype == "bfloat16":
        at_most = H200_UP_TO_16_ROWS if rows <= 16 else H200_UP_TO_64_ROWS
    return StaticCase(
        kernel=KernelCase(
            name=name,
            config={"dtype": dtype, "rows": rows},
            factory=f"kernel_cases:{name}_program",
            arguments={"dtype": dtype, "rows": rows},
            work=LoopWork(
                weights_per_thread=128,
                tma_smem_bytes_per_weight=stored_nbytes + 2 * rows / 128,
                tensor_smem_bytes_per_weight=rows / 32 if reads_x_once else 0.0,
                hbm_bytes_per_weight=stored_nbytes + GAUSSIAN_LISTS_BITS / 8,
            ),
        ),
        at_most=at_most,
        uses_tensor_cores=True,
    )


def decode_case(dtype: str, layout: str) -> StaticCase:
    """Decoding into device memory."""
    stored_nbytes = STORED_BITS[dtype] / 8
    return StaticCase(
        kernel=KernelCase(
            name="decode",
            config={"dtype": dtype, "layout": layout},
            factory="kernel_cases:decode_program",
            arguments={"dtype": dtype, "layout": layout},
            work=LoopWork(
                weights_per_thread=128,
                tma_smem_bytes_per_weight=stored_nbytes,
                hbm_bytes_per_weight=stored_nbytes + GAUSSIAN_LISTS_BITS / 8 + 2,
                loop="longest",
            ),
        )
    )


def encode_case(dtype: str, layout: str) -> StaticCase:
    """The main stream of a matrix; there is no loop, so this counts the whole kernel."""
    return StaticCase(
        kernel=KernelCase(
            name="encode",
            config={"dtype": dtype, "layout": layout},
            factory="kernel_cases:encode_program",
            arguments={"dtype": dtype, "layout": layout},
            work=LoopWork(
                weights_per_thread=128,
                hbm_bytes_per_weight=2 + STORED_BITS[dtype] / 8,
                loop="longest",
            ),
        )
    )


def decode_matmul_program(dtype: str, rows: int):
    """y = x @ W, W [4096, 4096]."""
    call = functools.partial(decode_matmul, implementation="mosaic_gpu")
    return call, (jax.ShapeDtypeStruct((rows, 4096), dtype), abstract((4096, 4096), dtype))


def grouped_decode_matmul_program(dtype: str, rows: int):
    """Rows of 8 experts [2048, 768], as many each."""
    call = functools.partial(grouped_decode_matmul, implementation="mosaic_gpu")
    x = jax.ShapeDtypeStruct((8 * rows, 2048), dtype)
    sizes = jax.ShapeDtypeStruct((8,), "int32")
    return call, (x, abstract((8, 2048, 768), dtype), sizes)


def decode_program(dtype: str, layout: str):
    """A matrix [4096, 14336]."""
    call = functools.partial(decode, implementation="mosaic_gpu")
    return call, (abstract((4096, 14336), dtype, layout),)


def encode_program(dtype: str, layout: str):
    """A matrix [4096, 14336]."""
    x = jax.ShapeDtypeStruct((4096, 14336), dtype)
    exponents = jax.ShapeDtypeStruct((17,), "uint8")
    return functools.partial(encode_words, layout=layout), (x, exponents)


def abstract(shape: tuple[int, ...], dtype: str, layout: str = "mma256x16") -> CompressedTensor:
    """A tensor of shapes only, its lists as long as Gaussian weights' are."""
    numpy_dtype = dtype_from_name(dtype)
    lists = {"patches": math.prod(shape) // 128, "rare_entries": 64}
    streams = {
        name: jax.ShapeDtypeStruct(
            tuple(lists[name] if size is None else size for size in spec.shape), spec.dtype
        )
        for name, spec in stream_specs("triple_bitmap", layout, numpy_dtype, shape).items()
    }
    return CompressedTensor("triple_bitmap", layout, numpy_dtype, shape, streams)
