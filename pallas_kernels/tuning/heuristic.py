"""Settings by formula, from a `Gpu` and a product: a first answer, and what a tuner should try.

A block reads its weights at its share of the memory's bandwidth, a wave of blocks at a time:

    time = waves * steps of a block * bytes of a step * SMs / bandwidth    reading the weights
         + 2 * 4 * split_k * M * N / bandwidth      partial sums, written and read, if split_k > 1

which is least where the last wave is full. Decoding fits beside it (docs/kernels.md), so only the
number of rows decides when the weights had better be decoded once for all of them.
"""

import itertools

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.hardware import Gpu
from pallas_kernels.tuning.config import (
    ROWS_PER_BLOCK,
    STEP_DEPTH,
    X_ROWS_MAX,
    DecodeMatmulConfig,
    MatmulShape,
)

_STAGES = (4, 3, 2)
_SPLIT_MAX = 16  # a prime number of steps may need more to fill the GPU, and is not worth it
_PATCH_BITS = 0.23  # of a weight, on Gaussian data: 1.3 % of 16 bits, and their offsets
# Weights an SM decodes in a clock with 64 rows of x, where shared memory is what limits it.
_WEIGHTS_PER_CLOCK = 19


def decode_matmul_heuristic(gpu: Gpu, shape: MatmulShape) -> DecodeMatmulConfig:
    """The settings with the least time by formula; among equals the fewest parts, most stages.

    Raises:
        UnsupportedError: none fits into the GPU's shared memory.
    """
    return decode_matmul_candidates(gpu, shape)[0]


def decode_matmul_candidates(gpu: Gpu, shape: MatmulShape) -> list[DecodeMatmulConfig]:
    """All settings that fit, the best by formula first.

    Args:
        gpu: what the program is for.
        shape: the product.

    Raises:
        UnsupportedError: none fits into the GPU's shared memory.
    """
    found = []
    splits = [n for n in range(1, _SPLIT_MAX + 1) if shape.num_steps % n == 0]
    for stages, split_k in itertools.product(_STAGES, splits):
        config = DecodeMatmulConfig(num_stages=stages, split_k=split_k)
        # A part shorter than its pipeline would only fill and drain it.
        is_long = split_k == 1 or shape.num_steps // split_k >= stages
        if is_long and config.fits(gpu, shape):
            found.append(config)
    if not found:
        raise UnsupportedError(
            f"two stages must fit into the {gpu.smem_per_block_nbytes} bytes of shared memory of "
            f"a block on {gpu.name}",
            got=shape,
        )
    return sorted(found, key=lambda config: _rank(gpu, shape, config))


def decode_first_rows(gpu: Gpu, shape: MatmulShape) -> int:
    """From how many rows on to decode the weights once and multiply plainly, by formula.

    A kernel passes over the weights once for every 64 rows. Decoding first costs the stored bytes
    in, the plain ones out and in again, and then nothing but the tensor cores' time:

        passes * max(stored / bandwidth, weights / decoding rate)
            > (stored + plain) / bandwidth + max(plain / bandwidth, 2 M K N / tensor-core rate)

    (all per weight here). Not measured yet; `benchmarks/kernels.py` shows both sides.

    Args:
        gpu: what the program is for.
        shape: the product, whatever its rows.

    Returns:
        rows: the least number for which that is faster; one more than a multiple of 64.
    """
    stored = (shape.stored_bits + _PATCH_BITS) / 8
    plain = shape.dtype.itemsize
    rate = _WEIGHTS_PER_CLOCK * gpu.num_sms * gpu.clock_hz
    a_pass = max(stored / gpu.memory_bytes_per_s, 1 / rate)
    for passes in range(1, 1024):
        rows = passes * X_ROWS_MAX
        multiply = max(plain / gpu.memory_bytes_per_s, 2 * rows / gpu.bf16_flops_per_s)
        if passes * a_pass > (stored + plain) / gpu.memory_bytes_per_s + multiply:
            return (passes - 1) * X_ROWS_MAX + 1
    raise AssertionError("a pass costs more than its share of the tensor cores' time")


def _rank(gpu: Gpu, shape: MatmulShape, config: DecodeMatmulConfig) -> tuple[float, int, int]:
    return _time_s(gpu, shape, config), config.split_k, -config.num_stages


def _time_s(gpu: Gpu, shape: MatmulShape, config: DecodeMatmulConfig) -> float:
    """The formula of the module's docstring."""
    step_nbytes = ROWS_PER_BLOCK * STEP_DEPTH * (shape.stored_bits + _PATCH_BITS) / 8
    steps = -(-shape.num_steps // config.split_k)
    per_sm = max(1, gpu.smem_per_sm_nbytes // (config.smem_nbytes(shape) + 1024))
    waves = -(-config.num_blocks(shape) // (gpu.num_sms * per_sm))
    read_s = waves * per_sm * steps * step_nbytes * gpu.num_sms / gpu.memory_bytes_per_s
    if config.split_k == 1:
        return read_s
    return read_s + 8 * config.split_k * shape.x_rows * shape.num_out / gpu.memory_bytes_per_s
