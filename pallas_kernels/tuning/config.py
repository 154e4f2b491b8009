"""What a `decode_matmul` kernel can be set to, for which product, and what that takes."""

import dataclasses

import numpy as np

from pallas_kernels.errors import ArgumentError
from pallas_kernels.format import dtype_name, float_spec

# The kernel's plan (docs/kernels.md): a warpgroup decodes 64 rows of the output's axis, 256 deep,
# in a step, and multiplies them by at most 64 rows of x.
STEP_DEPTH = 256
ROWS_PER_WARPGROUP = 64
X_ROWS_MAX = 64
_PATCH_NBYTES_PER_WARPGROUP = 1024  # the window on the patch lists of a step

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
        num_compute_warpgroups: warpgroups that decode and multiply, 64 rows of the output's axis
            each; one more loads.
        split_k: parts of the depth that are summed apart and then added, in order.
    """

    num_stages: int
    num_compute_warpgroups: int
    split_k: int

    def __post_init__(self):
        """Refuse what no kernel can be set to."""
        for name, least, most in (
            ("num_stages", 2, 8),
            ("num_compute_warpgroups", 1, 4),
            ("split_k", 1, 64),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ArgumentError(f"{name} must be from {least} to {most}", got=repr(value))

    def smem_nbytes(self, shape: MatmulShape) -> int:
        """Shared memory of a block: stages of words, patches and x, and one exponent plane."""
        weights = self.num_compute_warpgroups * ROWS_PER_WARPGROUP * STEP_DEPTH
        words = weights * shape.stored_bits // 8
        patches = self.num_compute_warpgroups * _PATCH_NBYTES_PER_WARPGROUP
        x = STEP_DEPTH * shape.x_rows * min(shape.dtype.itemsize, 2)
        return self.num_stages * (words + patches + x) + weights

    def num_blocks(self, shape: MatmulShape) -> int:
        """Blocks of the grid."""
        rows = self.num_compute_warpgroups * ROWS_PER_WARPGROUP
        return -(-shape.num_out // rows) * self.split_k
