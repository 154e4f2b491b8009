"""What travels on the wire: the exponent code's knobs, and its payload as a pytree of arrays."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from pallas_kernels.errors import ArgumentError
from pallas_kernels.format.slot_layout import GROUP_ELEMS, MAX_RUN_ELEMS, SlotLayout


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExponentConfig:
    """How wide the windows of a payload are, and how much room it keeps outside them.

    All of it is static: too little never loses a bit, but the payload overflows and the tensor has
    to go raw. Bits an element, on any data:

        1 + mantissa + code_bits + num_slots / 32 + 40 / elems_per_far + 8 / run

    Two tiers are measured (docs/design/0003-wire-position-slots.md), bfloat16, large tensors:

    - `ExponentConfig()`, 12.31 bits: windows of 16 exponents that always hold zero. Held every
      weight gradient but one, every activation and every first moment of a small transformer in
      training, ReLU, dropout, Student t and Cauchy. Not: squares (second moments), softmax outputs.
    - `ExponentConfig.gaussian()`, 11.31 bits: windows of 8. Holds N(0, sigma**2) whose sigma may
      change slowly, with four times the room it needs, and uniform and lognormal data: weights.
      Laplace, GELU and most gradients need `num_slots=12, elems_per_far=512` (11.47 bits) or more.

    Attributes:
        code_bits: 3 or 4, bits of exponent that every element pays: a window of 8 or 16 exponents.
        num_slots: C, one-byte positions in each group of 256 elements for exponents just outside
            the window. 2 to 255.
        elems_per_far: one entry of the far list (5 bytes) for so many elements. At least 1.
        max_run_elems: largest number of consecutive elements that share one base (one byte).
            A multiple of 8, 8 to 512. Smaller runs follow a scale that changes from row to row.
    """

    code_bits: int = 4
    num_slots: int = 4
    elems_per_far: int = 256
    max_run_elems: int = 256

    @classmethod
    def gaussian(cls) -> "ExponentConfig":
        """The tight tier, for data that is normal within every 512 elements."""
        return cls(code_bits=3, num_slots=8, elems_per_far=1024, max_run_elems=512)

    def __post_init__(self):
        _require_int("code_bits", self.code_bits, 3, 4)
        _require_int("num_slots", self.num_slots, 2, GROUP_ELEMS - 1)
        _require_int("elems_per_far", self.elems_per_far, 1, 2**31 - 1)
        _require_int("max_run_elems", self.max_run_elems, 8, MAX_RUN_ELEMS)
        if self.max_run_elems % 8:
            raise ArgumentError(
                "max_run_elems must be a multiple of 8",
                got=str(self.max_run_elems),
                fix="use 256 unless the scale changes more often",
            )

    def layout(self, dtype: np.dtype, num_elems: int) -> SlotLayout:
        """The sizes of a payload for `num_elems` elements of `dtype`."""
        return SlotLayout.plan(
            dtype,
            num_elems,
            code_bits=self.code_bits,
            num_slots=self.num_slots,
            elems_per_far=self.elems_per_far,
            max_run_elems=self.max_run_elems,
        )


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("streams",),
    meta_fields=("shape", "dtype", "config"),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExponentPayload:
    """A tensor in the exponent code; a pytree whose arrays travel as separate operands.

    Invariants:
        streams has the names, dtypes and shapes of `layout.streams()`, after batch axes if mapped
        decode gives back every bit of the tensor unless `overflow`

    Attributes:
        streams: name -> array, the leaves.
        shape: of the tensor, without batch axes (static).
        dtype: of the tensor, bfloat16, float16 or float32 (static).
        config: the knobs it was encoded with (static).
    """

    streams: dict[str, Array]
    shape: tuple[int, ...]
    dtype: np.dtype
    config: ExponentConfig

    @property
    def layout(self) -> SlotLayout:
        """The sizes of one payload; no array is looked at."""
        return self.config.layout(self.dtype, math.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of one payload on the wire; static."""
        specs = self.layout.streams().values()
        return sum(dtype.itemsize * math.prod(shape) for dtype, shape in specs)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of the tensor itself."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def num_far(self) -> Array:
        """int32 [*batch], elements that needed the far list, counted even where it is too short."""
        return lax.bitcast_convert_type(jnp.asarray(self.streams["side"])[..., -4:], jnp.int32)

    @property
    def overflow(self) -> Array:
        """bool [*batch], true where the far list was too short: send the tensor raw instead."""
        return self.num_far > np.int32(self.layout.far_capacity)


def _require_int(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ArgumentError(f"{name} must be a whole number from {low} to {high}", got=repr(value))
