"""What is fixed about a product when it is traced, and the activations that it may end with."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import jax
import numpy as np

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = MappingProxyType(
    {
        "relu": jax.nn.relu,
        "silu": jax.nn.silu,
        "gelu": partial(jax.nn.gelu, approximate=False),
        "gelu_tanh": partial(jax.nn.gelu, approximate=True),
    }
)
HOLD = ("matrix", "block")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """The static side of `decode_matmul`; its arguments are described there.

    Attributes:
        transpose: whether the matrix W that x is multiplied by is the stored one transposed.
        adjoint: multiply by W.T instead, as the gradient does.
        activation: a name in `ACTIVATIONS`, or None.
        out_dtype: dtype of y.
        hold: "matrix" or "block".
        implementation: a backend's name, or names in the order to try, or None.
    """

    transpose: bool
    activation: str | None
    out_dtype: np.dtype
    hold: str
    implementation: str | tuple[str, ...] | None
    adjoint: bool = False

    @property
    def contracts_rows(self) -> bool:
        """Whether the sum runs along the stored matrix's last axis, within its rows."""
        return self.transpose != self.adjoint
