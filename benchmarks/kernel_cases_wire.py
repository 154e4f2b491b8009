"""The kernels of the wire code in the configurations that are shipped, for `kernel_cases.py`.

The main loop of encoding and decoding is the one over units; what comes before or after it, once
for each group of 256 elements, is in the report's `kernel_instructions` alone.
"""

import math

import jax
from kernel_cases import StaticCase

from pallas_kernels import ExponentConfig, Gpu, dtype_from_name
from zipjax.dryrun import KernelCase, LoopWork

CONFIGS = {"default": ExponentConfig(), "gaussian": ExponentConfig.gaussian()}
NUM_ELEMS = 1 << 24
ODD_ELEMS = 10_000_001  # padded, and no piece of four elements can be loaded or stored

# Lanes of a multiprocessor that issue in a clock, and those of them on the ALU pipe.
ISSUE_LANES, ALU_LANES = 128, 64


def wire_cases(gpu: Gpu) -> list[StaticCase]:
    """All kernels, for the dtypes and tiers of the wire, and for a size that fits nothing."""
    return [
        _case(gpu, name, dtype, config, num_elems)
        for name in ("exponent_decode", "exponent_encode")
        for dtype in ("bfloat16", "float16", "float32")
        for config in CONFIGS
        for num_elems in (NUM_ELEMS, ODD_ELEMS)
        if num_elems == NUM_ELEMS or config == "default"
    ] + [_sample_case(dtype) for dtype in ("bfloat16", "float32")]


def exponent_decode_program(dtype: str, config: str, num_elems: int):
    """The kernel alone, without the far list."""
    from pallas_kernels.ops.exponent_decode.kernel import decode_near

    layout = _layout(dtype, config, num_elems)
    streams = {
        name: jax.ShapeDtypeStruct(shape, kind) for name, (kind, shape) in layout.streams().items()
    }
    return lambda s: decode_near(s, layout), (streams,)


def exponent_encode_program(dtype: str, config: str, num_elems: int):
    """The kernel alone, without choice of bases and far list."""
    from pallas_kernels.ops.exponent_encode.kernel import encode_near

    layout = _layout(dtype, config, num_elems)
    words = jax.ShapeDtypeStruct((num_elems,), layout.word_dtype)
    base = jax.ShapeDtypeStruct((layout.num_tiles, 16, 16), "uint8")
    return lambda w, b: encode_near(w, b, layout), (words, base)


def exponent_sample_program(dtype: str):
    """The choice of bases."""
    from pallas_kernels.ops.exponent_encode.kernel_sample import choose_base

    layout = _layout(dtype, "default", NUM_ELEMS)
    words = jax.ShapeDtypeStruct((NUM_ELEMS,), layout.word_dtype)
    return lambda w: choose_base(w, layout), (words,)


def _sample_case(dtype: str) -> StaticCase:
    """Straight-line code: a lane's run, counted per sampled element."""
    return StaticCase(
        kernel=KernelCase(
            name="exponent_sample",
            config={"dtype": dtype},
            factory="kernel_cases_wire:exponent_sample_program",
            arguments={"dtype": dtype},
            work=LoopWork(
                weights_per_thread=64,
                hbm_bytes_per_weight=dtype_from_name(dtype).itemsize,
                loop="longest",
            ),
        )
    )


def _case(gpu: Gpu, name: str, dtype: str, config: str, num_elems: int) -> StaticCase:
    layout = _layout(dtype, config, num_elems)
    in_fours = layout.run_elems % 4 == 0 and num_elems % 4 == 0
    moved_nbytes = _bytes_per_elem(dtype, config, num_elems)
    return StaticCase(
        kernel=KernelCase(
            name=name,
            config={"dtype": dtype, "config": config, "elems": num_elems},
            factory=f"kernel_cases_wire:{name}_program",
            arguments={"dtype": dtype, "config": config, "num_elems": num_elems},
            work=LoopWork(
                weights_per_thread=64 if in_fours else 16,
                hbm_bytes_per_weight=moved_nbytes,
                loop="longest",
            ),
        ),
        at_most=_memory_bound(gpu, moved_nbytes) if in_fours and gpu.name == "H200" else {},
    )


def _memory_bound(gpu: Gpu, moved_nbytes: float) -> dict[str, float]:
    """What a main loop may ask while an element's bytes move at the memory's full bandwidth."""
    clocks = moved_nbytes * gpu.num_sms * gpu.clock_hz / gpu.memory_bytes_per_s
    return {
        "alu_instructions_per_weight": ALU_LANES * clocks,
        "issue_slots_per_weight": ISSUE_LANES * clocks,
    }


def _bytes_per_elem(dtype: str, config: str, num_elems: int) -> float:
    """Of the tensor and of its payload, each moved once."""
    streams = _layout(dtype, config, num_elems).streams().values()
    payload_nbytes = sum(kind.itemsize * math.prod(shape) for kind, shape in streams)
    return payload_nbytes / num_elems + dtype_from_name(dtype).itemsize


def _layout(dtype: str, config: str, num_elems: int):
    return CONFIGS[config].layout(dtype_from_name(dtype), num_elems)
