"""The settings that hold here: measured ones inside `tuned`, else by formula."""

import contextlib
import contextvars
from collections.abc import Iterator

from pallas_kernels.hardware import Gpu
from pallas_kernels.tuning.cache import TuningCache
from pallas_kernels.tuning.config import DecodeMatmulConfig, MatmulShape
from pallas_kernels.tuning.heuristic import decode_matmul_heuristic

_measured: contextvars.ContextVar[TuningCache | None] = contextvars.ContextVar(
    "measured_settings", default=None
)


@contextlib.contextmanager
def tuned(cache: TuningCache) -> Iterator[TuningCache]:
    """Inside the block, kernels traced take their settings from `cache` where it has some.

    Args:
        cache: of the device that the programs are for, e.g. `TuningCache.load(device_kind)`.
    """
    token = _measured.set(cache)
    try:
        yield cache
    finally:
        _measured.reset(token)


def decode_matmul_config(gpu: Gpu, shape: MatmulShape) -> DecodeMatmulConfig:
    """The settings of a `decode_matmul` kernel for a product on a GPU.

    Args:
        gpu: what the program is for. Settings that do not fit into it are passed over.
        shape: the product.

    Raises:
        UnsupportedError: none fits.
    """
    cache = _measured.get()
    config = cache.get(shape) if cache else None
    if config is not None and config.fits(gpu, shape):
        return config
    return decode_matmul_heuristic(gpu, shape)
