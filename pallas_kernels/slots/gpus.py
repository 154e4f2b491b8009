"""Which GPUs the kernels of the wire code run on."""

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.hardware import Gpu, current_gpu
from pallas_kernels.versions import MOSAIC_KNOWS_AMPERE


def require_wire_gpu() -> Gpu:
    """The GPU at hand, or the assumed one.

    Raises:
        UnsupportedError: it is not one that the kernels are for, or not with this JAX.
    """
    gpu = current_gpu()
    if gpu is None or gpu.compute_capability[0] not in (8, 9, 10):
        name = gpu.name if gpu else "no known GPU"
        what = "the wire kernels run on Ampere, Ada, Hopper and Blackwell"
        raise UnsupportedError(what, got=name)
    if gpu.compute_capability[0] == 8 and not MOSAIC_KNOWS_AMPERE:
        raise UnsupportedError("kernels for Ampere and Ada need jax 0.11", got=gpu.name)
    return gpu
