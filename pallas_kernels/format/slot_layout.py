"""The geometry of the position-slots wire format: which array holds what, and how large it is.

Everything here follows from the dtype, the number of elements and three knobs, never from the data:
sizes inside `jit` are static. The normative text is `docs/wire-format.md`.

Axis letters, used by the oracle, the ops and the documents alike:
    T  tiles
    I  16 rows of a unit
    J  16 units of a group
    L  elements in a run; a run is consecutive in memory, and lane l of a tile is a *group*
    C  slots of a group
    K  entries of the far list
"""

import dataclasses
import math

import numpy as np

from pallas_kernels.errors import UnsupportedError
from pallas_kernels.format.floats import float_spec

UNIT_ELEMS = 16
GROUP_ELEMS = 16 * UNIT_ELEMS
MAX_RUN_ELEMS = 512
MIN_FAR_CAPACITY = 32
FAR_ENTRY_NBYTES = 5  # one byte of relative exponent, four of position
SUPPORTED_DTYPES = ("bfloat16", "float16", "float32")

StreamSpecs = dict[str, tuple[np.dtype, tuple[int, ...]]]

# How an encoder chooses the base of a run; no decoder depends on it. In 1/1024, so that every
# backend rounds alike: `ops.exponent_encode.base_choice` derives the figure.
MEAN_TO_BASE_1024 = {3: 4282, 4: 10 * 1024}  # by code_bits
SAMPLE_ELEMS = 64  # leading elements of a run
NUM_LIFTS = 4
TYPICAL_RUNS = 1 << 20  # runs that the typical base is the mean of: more would overflow 32 bits

# Positions are 32-bit signed integers in XLA without x64.
MAX_PADDED_ELEMS = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlotLayout:
    """The sizes of one payload.

    Invariants:
        padded_elems == num_tiles * 256 * run_elems >= num_elems
        word_bits == 1 + exponent_bits + mantissa_bits
        max_run_elems >= run_elems >= 1

    Attributes:
        num_elems: elements of the tensor.
        exponent_bits: 8 (bfloat16, float32) or 5 (float16).
        mantissa_bits: 7, 23 or 10.
        code_bits: 3 or 4; the window is 2**code_bits exponents.
        num_tiles: T.
        run_elems: L, elements that share one base.
        num_slots: C, one-byte positions of near escapes in each group of 256 elements.
        far_capacity: K, entries for the escapes that no slot holds.
    """

    num_elems: int
    exponent_bits: int
    mantissa_bits: int
    code_bits: int
    num_tiles: int
    run_elems: int
    num_slots: int
    far_capacity: int

    @classmethod
    def plan(
        cls,
        dtype: np.dtype,
        num_elems: int,
        *,
        code_bits: int,
        num_slots: int,
        elems_per_far: int,
        max_run_elems: int = MAX_RUN_ELEMS,
    ) -> "SlotLayout":
        """Choose the sizes for a tensor.

        Args:
            dtype: bfloat16, float16 or float32.
            num_elems: elements of the tensor, 0 or more.
            code_bits: 3 or 4.
            num_slots: C.
            elems_per_far: padded elements for each entry of the far list.
            max_run_elems: largest L.

        Returns:
            The layout.

        Raises:
            UnsupportedError: the dtype has no exponent code, or the tensor is too large.
        """
        check_dtype(dtype)
        num_tiles = -(-num_elems // (GROUP_ELEMS * max_run_elems))
        run_elems = 0
        if num_tiles:
            run_elems = _round_run(-(-num_elems // (GROUP_ELEMS * num_tiles)), max_run_elems)
        padded_elems = num_tiles * GROUP_ELEMS * run_elems
        if padded_elems > MAX_PADDED_ELEMS:
            raise UnsupportedError(
                f"an exponent payload holds at most {MAX_PADDED_ELEMS} elements",
                got=f"{num_elems} elements",
                fix="split the tensor and send the parts one by one",
            )
        spec = float_spec(dtype)
        return cls(
            num_elems=num_elems,
            exponent_bits=spec.exponent_bits,
            mantissa_bits=spec.mantissa_bits,
            code_bits=code_bits,
            num_tiles=num_tiles,
            run_elems=run_elems,
            num_slots=num_slots,
            far_capacity=max(MIN_FAR_CAPACITY, -(-padded_elems // elems_per_far))
            if padded_elems
            else 0,
        )

    @property
    def word_bits(self) -> int:
        """Bits of one element: 16 or 32."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def word_dtype(self) -> np.dtype:
        """The unsigned integer that carries one element's bits."""
        return np.dtype(np.uint16 if self.word_bits == 16 else np.uint32)

    @property
    def window(self) -> int:
        """Consecutive exponents that a code can name: 8 or 16."""
        return 1 << self.code_bits

    @property
    def lowest_code(self) -> int:
        """The code of the lowest exponent of the window; with 4 bits code 0 names zero."""
        return self.code_bits - 3

    @property
    def num_exponents(self) -> int:
        """Values of the exponent field: 256 or 32."""
        return 1 << self.exponent_bits

    @property
    def tile_shape(self) -> tuple[int, int, int, int]:
        """[T, I, J, L]: the padded elements in memory order."""
        return (self.num_tiles, 16, 16, self.run_elems)

    @property
    def padded_elems(self) -> int:
        """Elements with the padding that fills the last tile."""
        return math.prod(self.tile_shape)

    @property
    def num_runs(self) -> int:
        """Runs of L elements, each with a base of its own."""
        return self.num_tiles * GROUP_ELEMS

    @property
    def side_nbytes(self) -> int:
        """Bytes of the side stream: bases, far list, count."""
        return self.num_runs + FAR_ENTRY_NBYTES * self.far_capacity + 4

    def streams(self) -> StreamSpecs:
        """Name -> (dtype, shape) of every array of the payload, in order."""
        tiles, _, _, run = self.tile_shape
        u8, u16 = np.dtype(np.uint8), np.dtype(np.uint16)
        specs: StreamSpecs = {"remainder": (u8, (self.padded_elems,))}
        if self.word_bits == 32:
            specs["remainder_low"] = (u16, (self.padded_elems,))
        elif self.exponent_bits == 5:
            specs["remainder_low"] = (u16, (tiles, 3, 16, run))
        specs["code"] = (u16, (tiles, self.code_bits, 16, run))
        specs["slots"] = (u8, (tiles, self.num_slots, run))
        specs["side"] = (u8, (self.side_nbytes,))
        return specs


def check_dtype(dtype: np.dtype) -> None:
    """Refuse a dtype that the exponent code does not know.

    Raises:
        UnsupportedError: it is none of bfloat16, float16, float32.
    """
    if np.dtype(dtype).name not in SUPPORTED_DTYPES:
        raise UnsupportedError(
            f"the exponent code takes {', '.join(SUPPORTED_DTYPES)}",
            got=np.dtype(dtype).name,
            fix="send other dtypes raw",
        )


def _round_run(run_elems: int, max_run_elems: int) -> int:
    """Round L up to a multiple of 8 where that costs at most 3 %, of 4, 2 or 1 below.

    Whole vectors are faster; for small tensors bytes count more.
    """
    step = min(8, 1 << max(0, (run_elems // 32).bit_length() - 1))
    return min(-(-run_elems // step) * step, max_run_elems)
