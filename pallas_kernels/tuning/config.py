"""What a `decode_matmul` kernel can be set to, for which product, and what that takes."""

import dataclasses

import numpy as np

from pallas_kernels.errors import ArgumentError
from pallas_kernels.format import dtype_name, float_spec
from pallas_kernels.hardware import Gpu

# The kernel's plan (docs/kernels.md): a block decodes 128 rows of the output's axis, 256 deep, in a
# step, and multiplies them by at most 64 rows of x.
STEP_DEPTH = 256
ROWS_PER_BLOCK = 128
X_ROWS_MAX = 64
_RESERVED_NBYTES = 2048  # barriers and alignment, on the safe side

# Stored bits of a weight: 3 of the code, those of the remainder.
_CODE_BITS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class MatmulShape:
    """A product x [rows, depth] @ decode(weight) [depth, num_out].

    Attributes:
        rows: M.
        depth: K.
        num_out: N.
        dtype: of the weight.
    """

    rows: int
    depth: int
    num_out: int
    dtype: np.dtype

    def __post_init__(self):
        """Sizes are at least 1, and the dtype is one that is coded."""
        if min(self.rows, self.depth, self.num_out) < 1:
            raise ArgumentError("sizes of a product must be at least 1", got=self)
        float_spec(self.dtype)

    @property
    def x_rows(self) -> int:
        """Rows of x that a pass over the weights takes: `rows` rounded up to 8, 16, 32 or 64."""
        return min(X_ROWS_MAX, max(8, 1 << (self.rows - 1).bit_length()))

    @property
    def num_steps(self) -> int:
        """Steps along the depth."""
        return -(-self.depth // STEP_DEPTH)

    @property
    def stored_bits(self) -> int:
        """Bits of a weight without its patches."""
        return _CODE_BITS + float_spec(self.dtype).remainder_bits

    @property
    def key(self) -> str:
        """The same for all products that are tuned as one."""
        return f"{self.x_rows}x{self.depth}x{self.num_out} {dtype_name(self.dtype)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeMatmulConfig:
    """The settings of a `decode_matmul` kernel.

    Attributes:
        num_stages: steps in shared memory at once, at least 2: one computed with, the others on
            their way.
        split_k: parts of the depth that are summed apart and then added, in order; divides the
            steps along the depth.
    """

    num_stages: int
    split_k: int

    def __post_init__(self):
        """Refuse what no kernel can be set to."""
        for name, least, most in (
            ("num_stages", 2, 8),
            ("split_k", 1, 4096),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ArgumentError(f"{name} must be from {least} to {most}", got=repr(value))

    def smem_nbytes(self, shape: MatmulShape) -> int:
        """Shared memory of a block: stages of words and x, and one exponent plane."""
        weights = ROWS_PER_BLOCK * STEP_DEPTH
        words = weights * shape.stored_bits // 8
        x = STEP_DEPTH * shape.x_rows * min(shape.dtype.itemsize, 2)
        return self.num_stages * (words + x) + weights + _RESERVED_NBYTES

    def fits(self, gpu: Gpu, shape: MatmulShape) -> bool:
        """Whether a block has its shared memory. Before Hopper there are no stages: words go
        straight into registers, and the exponent plane is all."""
        plane = ROWS_PER_BLOCK * STEP_DEPTH
        nbytes = self.smem_nbytes(shape) if gpu.compute_capability[0] > 8 else plane
        return nbytes <= gpu.smem_per_block_nbytes

    def num_blocks(self, shape: MatmulShape) -> int:
        """Blocks of the grid."""
        return -(-shape.num_out // ROWS_PER_BLOCK) * self.split_k
