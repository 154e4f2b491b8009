"""Which GPUs the kernels of the wire code run on."""

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.hardware import Gpu, current_gpu


def require_wire_gpu() -> Gpu:
    """The GPU at hand, or the assumed one.

    Raises:
        UnsupportedError: it is not one that the kernels are for.
    """
    gpu = current_gpu()
    if gpu is None or gpu.compute_capability[0] not in (9, 10):
        name = gpu.name if gpu else "no known GPU"
        raise UnsupportedError("the wire kernels run on Hopper and Blackwell", got=name)
    return gpu
