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
    """How much room a payload keeps for exponents outside its windows.

    Room is static: too little never loses a bit, but the payload overflows and the tensor goes raw.

    Attributes:
        code_bits: 3 or 4, bits of exponent that every element pays: a window of 8 or 16 exponents.
        num_slots: C, one-byte positions in each group of 256 elements for exponents just outside
            the window; costs C / 32 bits an element. 2 to 255.
        elems_per_far: one entry of the far list (5 bytes) for so many elements; costs
            40 / elems_per_far bits an element. At least 1.
        max_run_elems: largest number of consecutive elements that share one base (one byte).
            A multiple of 8, 8 to 512. Smaller runs follow a scale that changes from row to row.
    """

    code_bits: int = 3
    num_slots: int = 8
    elems_per_far: int = 1024
    max_run_elems: int = MAX_RUN_ELEMS

    def __post_init__(self):
        _require_int("code_bits", self.code_bits, 3, 4)
        _require_int("num_slots", self.num_slots, 2, GROUP_ELEMS - 1)
        _require_int("elems_per_far", self.elems_per_far, 1, 2**31 - 1)
        _require_int("max_run_elems", self.max_run_elems, 8, MAX_RUN_ELEMS)
        if self.max_run_elems % 8:
            raise ArgumentError(
                "max_run_elems must be a multiple of 8",
                got=str(self.max_run_elems),
                fix="use 512 unless the scale changes within 512 elements",
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
