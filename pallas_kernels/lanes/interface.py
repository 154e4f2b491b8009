"""`Lanes`: the few things that a device function may ask of the 128 lanes of a warpgroup."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

WARP_LANES = 32
GROUP_LANES = 128

Word = Any  # 32 bits in each lane
Memory = Any  # shared or global memory, addressed by bytes


class Lanes(Protocol):
    """Operations on words of 32 bits, one in each lane; arithmetic is modulo 2^32."""

    def const(self, value: int) -> Word:
        """The same word in every lane."""

    def lane_in_group(self) -> Word:
        """0 to 127."""

    def add(self, a: Word, b: Word) -> Word:
        """a + b."""

    def sub(self, a: Word, b: Word) -> Word:
        """a - b."""

    def mul(self, a: Word, b: Word) -> Word:
        """a * b, the low 32 bits."""

    def and_(self, a: Word, b: Word) -> Word:
        """a & b."""

    def divide(self, a: Word, by: int) -> Word:
        """a // by, unsigned, for a constant from 1 to 2^31 - 1."""

    def divide_by(self, a: Word, b: Word) -> Word:
        """a // b, unsigned, b not 0: some twenty instructions."""

    def shl(self, a: Word, count: int) -> Word:
        """a << count."""

    def shl_by(self, a: Word, count: Word) -> Word:
        """a << count, for counts of 0 to 31 that differ by lane."""

    def shr(self, a: Word, count: int) -> Word:
        """a >> count, zeros from the left."""

    def min(self, a: Word, b: Word) -> Word:
        """The smaller of two signed numbers."""

    def select_less(self, a: Word, b: Word, then: Word, other: Word) -> Word:
        """`then` where a < b (signed), else `other`."""

    def masked(self, a: Word, mask: int, c: Word, table: int) -> Word:
        """Any bitwise function of `a`, a constant and `c` in one instruction; see `logic_table`."""

    def logic(self, a: Word, b: Word, c: Word, table: int) -> Word:
        """Any bitwise function of three words in one instruction; see `logic_table`."""

    def pick_bytes(self, a: Word, selector: int) -> Word:
        """Bytes of `a` by the nibbles of `selector`, lowest first; nibble 4 gives a zero byte."""

    def merge_bytes(self, a: Word, b: Word, selector: int) -> Word:
        """Bytes of `a` (nibbles 0 to 3 of `selector`) and `b` (4 to 7), lowest first.

        A nibble 8 + n gives the top bit of byte n, eight times.
        """

    def popcount(self, a: Word) -> Word:
        """How many bits are set."""

    def lowest_bit(self, a: Word) -> Word:
        """The number of the lowest bit that is set; 32 where none is."""

    def multiply_add(self, a: Word, factor: int, c: Word) -> Word:
        """a * factor + c, on the multiplier."""

    def shuffle(self, a: Word, lane: Word) -> Word:
        """`a` of the lane of the same warp that the low five bits of `lane` name."""

    def load(self, memory: Memory, offset: Word, bits: int) -> Word:
        """8, 16 or 32 bits at a byte offset, which must be a multiple of their size."""

    def load_element(self, memory: Memory, index: Word) -> Word:
        """The 32-bit word number `index` (signed, not negative) of a memory of words."""

    def load_vector(self, memory: Memory, offset: Word, count: int) -> Sequence[Word]:
        """2 or 4 words at once, the offset a multiple of their size."""

    def load_vector_element(self, memory: Memory, index: Word) -> Sequence[Word]:
        """Four words at once, number `index` (unsigned) of such fours."""

    def store(self, memory: Memory, offset: Word, value: Word, bits: int) -> None:
        """The low 8, 16 or 32 bits of `value`."""

    def store_vector(self, memory: Memory, offset: Word, values: Sequence[Word]) -> None:
        """2 or 4 words at once, the offset a multiple of their size."""

    def moved(self, memory: Memory, index: Word, stride: int) -> Memory:
        """The memory from byte `index * stride` on, which may be beyond 32 bits.

        Offsets of loads and stores are signed 32 bits; a large memory is addressed in two steps.
        """

    def when_less(self, a: Word, b: Word, body: Callable[[], None]) -> None:
        """`body()` in the lanes where a < b (signed)."""

    def store_element(self, memory: Memory, index: Word, value: Word) -> None:
        """Set the 32-bit word number `index` (unsigned) of a memory of words."""

    def transpose_block(self, a: Word) -> Word:
        """Transpose the 8 x 8 block of 16-bit elements that a warp holds, two to a word: lane
        4 r + q has row r, columns 2 q and 2 q + 1, before and after."""

    def sync_warp(self) -> None:
        """Earlier stores of the lanes of a warp are seen by its later loads."""

    def sync_group(self) -> None:
        """Earlier stores of all lanes are seen by their later loads; never inside a branch."""

    def loop(
        self,
        start: Word,
        stop: Word,
        step: int,
        body: Callable[..., Sequence[Word] | None],
        writes: Sequence[Memory],
        carry: Sequence[Word] = (),
    ) -> Sequence[Word]:
        """`carry = body(j, *carry)` for j = start, start + step, ... below stop (signed).

        Where lanes of a warp take different numbers of turns, the body may not synchronise or
        shuffle. `writes` are the memories that it stores to. Returns the last carry; a body without
        one returns None.
        """

    def multiply_tiles(
        self, acc: Sequence[Word], a: Sequence[Word], b: Sequence[Word], kind: str
    ) -> Sequence[Word]:
        """`mma.m16n8k16`, row by column: 4 float32 words plus 4 words of A times 2 words of B.

        `kind` is "bf16" or "f16"; fragments are as PTX ISA lays them out.
        """


def logic_table(function: Callable[[int, int, int], int]) -> int:
    """The truth table of a bitwise function of three words, as `lop3` takes it."""
    return function(0xF0, 0xCC, 0xAA) & 0xFF
