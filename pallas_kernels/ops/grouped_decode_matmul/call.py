"""What is fixed about a grouped product when it is traced."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """The static side of `grouped_decode_matmul`; its arguments are described there.

    Attributes:
        transpose: whether the experts' matrices are the stored ones transposed.
        out_dtype: dtype of y.
        implementation: a backend's name, or names in the order to try, or None.
        adjoint: multiply by the transposed matrices instead, as the gradient does.
    """

    transpose: bool
    out_dtype: np.dtype
    implementation: str | tuple[str, ...] | None
    adjoint: bool = False

    @property
    def contracts_rows(self) -> bool:
        """Whether the sum runs along the stored matrices' last axis, within their rows."""
        return self.transpose != self.adjoint
