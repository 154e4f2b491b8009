"""`Lanes` in MLIR, inside `plgpu.inline_mgpu`: each operation is one instruction, or two.

LLVM regroups chains of logic operations to its own taste, which costs up to a `lop3` a pair of
weights; so those are PTX.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jax.experimental.mosaic.gpu import utils
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import arith, llvm, scf, vector

from pallas_kernels.lanes.interface import GROUP_LANES, Memory, Word

_DYNAMIC = -2147483648  # llvm.getelementptr: this index is the next operand


class MlirLanes:
    """One lane's view; the hardware does the others."""

    def __init__(self) -> None:
        """Must be made while a kernel is being lowered."""
        self._i32 = ir.IntegerType.get_signless(32)

    def const(self, value: int) -> Word:
        """See `Lanes`."""
        value &= 0xFFFFFFFF
        signed = value - (1 << 32) if value >> 31 else value
        return arith.constant(self._i32, ir.IntegerAttr.get(self._i32, signed))

    def lane_in_group(self) -> Word:
        """See `Lanes`."""
        thread = self._asm("mov.u32 $0, %tid.x;", [], "=r")
        return arith.andi(thread, self.const(GROUP_LANES - 1))

    def add(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return arith.addi(a, b)

    def sub(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return arith.subi(a, b)

    def mul(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return arith.muli(a, b)

    def and_(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return arith.andi(a, b)

    def divide(self, a: Word, by: int) -> Word:
        """See `Lanes`."""
        return arith.divui(a, self.const(by))

    def divide_by(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return arith.divui(a, b)

    def shl(self, a: Word, count: int) -> Word:
        """See `Lanes`."""
        return arith.shli(a, self.const(count))

    def shl_by(self, a: Word, count: Word) -> Word:
        """See `Lanes`."""
        return arith.shli(a, count)

    def shr(self, a: Word, count: int) -> Word:
        """See `Lanes`."""
        return arith.shrui(a, self.const(count))

    def min(self, a: Word, b: Word) -> Word:
        """See `Lanes`."""
        return arith.minsi(a, b)

    def select_less(self, a: Word, b: Word, then: Word, other: Word) -> Word:
        """See `Lanes`."""
        return arith.select(arith.cmpi(arith.CmpIPredicate.slt, a, b), then, other)

    def masked(self, a: Word, mask: int, c: Word, table: int) -> Word:
        """See `Lanes`."""
        return self._asm(f"lop3.b32 $0, $1, 0x{mask:08x}, $2, 0x{table:02x};", [a, c], "=r,r,r")

    def pick_bytes(self, a: Word, selector: int) -> Word:
        """See `Lanes`."""
        return self._asm(f"prmt.b32 $0, $1, 0, 0x{selector:04x};", [a], "=r,r")

    def logic(self, a: Word, b: Word, c: Word, table: int) -> Word:
        """See `Lanes`."""
        return self._asm(f"lop3.b32 $0, $1, $2, $3, 0x{table:02x};", [a, b, c], "=r,r,r,r")

    def merge_bytes(self, a: Word, b: Word, selector: int) -> Word:
        """See `Lanes`."""
        return self._asm(f"prmt.b32 $0, $1, $2, 0x{selector:04x};", [a, b], "=r,r,r")

    def popcount(self, a: Word) -> Word:
        """See `Lanes`."""
        return self._asm("popc.b32 $0, $1;", [a], "=r,r")

    def lowest_bit(self, a: Word) -> Word:
        """See `Lanes`."""
        return self._asm("{.reg .b32 r; brev.b32 r, $1; clz.b32 $0, r;}", [a], "=r,r")

    def multiply_add(self, a: Word, factor: int, c: Word) -> Word:
        """See `Lanes`."""
        return self._asm(f"mad.lo.u32 $0, $1, {factor}, $2;", [a, c], "=r,r,r")

    def shuffle(self, a: Word, lane: Word) -> Word:
        """See `Lanes`."""
        text = "shfl.sync.idx.b32 $0, $1, $2, 0x1f, 0xffffffff;"
        return self._asm(text, [a, lane], "=r,r,r", has_side_effects=True)

    def load(self, memory: Memory, offset: Word, bits: int) -> Word:
        """See `Lanes`."""
        narrow = ir.IntegerType.get_signless(bits)
        value = llvm.load(narrow, self._address(memory, offset), alignment=bits // 8)
        return value if bits == 32 else arith.extui(self._i32, value)

    def load_element(self, memory: Memory, index: Word) -> Word:
        """See `Lanes`."""
        return llvm.load(self._i32, self._element_address(memory, index), alignment=4)

    def load_vector(self, memory: Memory, offset: Word, count: int) -> Sequence[Word]:
        """See `Lanes`."""
        wide = ir.VectorType.get((count,), self._i32)
        value = llvm.load(wide, self._address(memory, offset), alignment=4 * count)
        return [
            vector.extract(value, dynamic_position=[], static_position=[i]) for i in range(count)
        ]

    def load_vector_element(self, memory: Memory, index: Word) -> Sequence[Word]:
        """See `Lanes`."""
        wide = ir.VectorType.get((4,), self._i32)
        value = llvm.load(wide, self._element_address(memory, index, wide), alignment=16)
        return [vector.extract(value, dynamic_position=[], static_position=[i]) for i in range(4)]

    def store(self, memory: Memory, offset: Word, value: Word, bits: int) -> None:
        """See `Lanes`."""
        if bits < 32:
            value = arith.trunci(ir.IntegerType.get_signless(bits), value)
        llvm.store(value, self._address(memory, offset), alignment=bits // 8)

    def store_vector(self, memory: Memory, offset: Word, values: Sequence[Word]) -> None:
        """See `Lanes`."""
        wide = ir.VectorType.get((len(values),), self._i32)
        value = vector.from_elements(wide, list(values))
        llvm.store(value, self._address(memory, offset), alignment=4 * len(values))

    def moved(self, memory: Memory, index: Word, stride: int) -> Memory:
        """See `Lanes`."""
        i64 = ir.IntegerType.get_signless(64)
        by = arith.constant(i64, ir.IntegerAttr.get(i64, stride))
        return self._address(memory, arith.muli(arith.extui(i64, index), by))

    def when_less(self, a: Word, b: Word, body: Callable[[], None]) -> None:
        """See `Lanes`."""
        branch = scf.IfOp(arith.cmpi(arith.CmpIPredicate.slt, a, b))
        with ir.InsertionPoint(branch.then_block):
            body()
            scf.yield_([])

    def store_element(self, memory: Memory, index: Word, value: Word) -> None:
        """See `Lanes`."""
        llvm.store(value, self._element_address(memory, index), alignment=4)

    def transpose_block(self, a: Word) -> Word:
        """See `Lanes`."""
        text = "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
        return self._asm(text, [a], "=r,r", has_side_effects=True)

    def sync_warp(self) -> None:
        """See `Lanes`."""
        utils.warp_barrier()

    def sync_group(self) -> None:
        """See `Lanes`."""
        utils.warpgroup_barrier()

    def loop(
        self,
        start: Word,
        stop: Word,
        step: int,
        body: Callable[..., Sequence[Word] | None],
        writes: Sequence[Memory],
        carry: Sequence[Word] = (),
    ) -> Sequence[Word]:
        """See `Lanes`; never unrolled: such loops are long, or for what is rare."""
        types = [self._i32] * (1 + len(carry))
        loop = scf.WhileOp(types, [start, *carry])
        before = loop.before.blocks.append(*types)
        with ir.InsertionPoint(before):
            more = arith.cmpi(arith.CmpIPredicate.slt, before.arguments[0], stop)
            scf.condition(more, list(before.arguments))
        after = loop.after.blocks.append(*types)
        with ir.InsertionPoint(after):
            j, *state = after.arguments
            self._asm_only('.pragma "nounroll";')
            following = body(j, *state) or ()
            scf.yield_([arith.addi(j, self.const(step)), *following])
        return list(loop.results)[1:]

    def multiply_tiles(
        self, acc: Sequence[Word], a: Sequence[Word], b: Sequence[Word], kind: str
    ) -> Sequence[Word]:
        """See `Lanes`."""
        name = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
        text = f"{name} {{$0,$1,$2,$3}}, {{$4,$5,$6,$7}}, {{$8,$9}}, {{$10,$11,$12,$13}};"
        f32 = ir.F32Type.get()
        floats = [arith.bitcast(f32, word) for word in acc]
        out = llvm.inline_asm(
            llvm.StructType.get_literal([f32] * 4),
            [*a, *b, *floats],
            text,
            "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f",
            has_side_effects=False,
        )
        parts = [llvm.extractvalue(f32, out, ir.DenseI64ArrayAttr.get([i])) for i in range(4)]
        return [arith.bitcast(self._i32, part) for part in parts]

    def _element_address(self, memory: Memory, index: Word, element: Any = None) -> Any:
        wide = arith.extui(ir.IntegerType.get_signless(64), index)
        flags = llvm.GEPNoWrapFlags.none
        return llvm.getelementptr(
            memory.type, memory, [wide], [_DYNAMIC], element or self._i32, flags
        )

    def _address(self, memory: Memory, offset: Word) -> Any:
        byte = ir.IntegerType.get_signless(8)
        flags = llvm.GEPNoWrapFlags.none
        return llvm.getelementptr(memory.type, memory, [offset], [_DYNAMIC], byte, flags)

    def _asm(
        self, text: str, args: Sequence[Word], constraints: str, has_side_effects: bool = False
    ) -> Word:
        return llvm.inline_asm(
            self._i32, args, text, constraints, has_side_effects=has_side_effects
        )

    def _asm_only(self, text: str) -> None:
        llvm.inline_asm(None, [], text, "", has_side_effects=True)
