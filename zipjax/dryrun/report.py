"""What a kernel costs per weight, counted in its machine code."""

import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from pallas_kernels import ArgumentError
from zipjax.dryrun.errors import CompileError
from zipjax.dryrun.loops import Kind, MainLoop, main_loop
from zipjax.dryrun.pipes import BANK_BYTES, Pipe, smem_bytes_per_lane
from zipjax.dryrun.program import MosaicKernel
from zipjax.dryrun.ptxas import Resources, parse_log
from zipjax.dryrun.sass import Function, Instruction


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopWork:
    """What one trip of a kernel's main loop does, as its author knows it.

    The machine code does not say how much TMA and the tensor cores move, so the author does;
    `of_matmul` has the formulas for a matrix product.

    Attributes:
        weights_per_thread: weights that a thread of a computing warp decodes in one trip.
        tma_smem_bytes_per_weight: what TMA writes into shared memory.
        tensor_smem_bytes_per_weight: what the tensor cores read from shared memory.
        hbm_bytes_per_weight: what the kernel reads of the weights' compressed form in device
            memory.
        loop: "tensor_core" for the outermost loop with tensor-core instructions, "longest" for the
            longest of all: on Blackwell one warp issues them, and others decode.
        loop_depth: 0 where the outermost loop with tensor-core instructions is the one over
            weights; 1 for the loop inside it, and so on (`zipjax.dryrun.loops.main_loop`).
    """

    weights_per_thread: float
    tma_smem_bytes_per_weight: float = 0.0
    tensor_smem_bytes_per_weight: float = 0.0
    hbm_bytes_per_weight: float = 0.0
    loop: Kind = "tensor_core"
    loop_depth: int = 0

    @classmethod
    def of_matmul(
        cls,
        *,
        num_rows: int,
        columns_per_block: int,
        bits_per_weight: float,
        weights_per_thread: float,
        **others: Any,
    ) -> "LoopWork":
        """Of y[M, N] = x[M, K] @ w[K, N], 16-bit floats, weights the register operand of wgmma.

        - TMA writes every compressed bit once, and for each step of K a tile of x, M values of two
          bytes for `columns_per_block` weights: `bits / 8 + 2 * M / columns_per_block`.
        - `wgmma.m64nMk16` reads 16 x M values of x for 64 x 16 weights: `M / 32`.
        - Device memory gives every compressed bit once: `bits / 8`.

        Args:
            num_rows: M, as the kernel has it: padded.
            columns_per_block: of N; all warpgroups of a block share a tile of x.
            bits_per_weight: of the compressed form, lists of patches included.
            weights_per_thread: see the class.
            **others: fields of the class.
        """
        compressed = bits_per_weight / 8
        return cls(
            weights_per_thread=weights_per_thread,
            tma_smem_bytes_per_weight=compressed + 2 * num_rows / columns_per_block,
            tensor_smem_bytes_per_weight=num_rows / 32,
            hbm_bytes_per_weight=compressed,
            **others,
        )

    def __post_init__(self):
        """A trip does something, and nothing moves a negative number of bytes."""
        moved = (
            self.tma_smem_bytes_per_weight,
            self.tensor_smem_bytes_per_weight,
            self.hbm_bytes_per_weight,
        )
        if self.weights_per_thread <= 0 or min(moved) < 0:
            raise ArgumentError(
                "a trip of the main loop has more than 0 weights, and no byte count is negative",
                got=repr(self),
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelReport:
    """A kernel as compiled for a GPU. Instructions are those of one thread, or warp.

    Attributes:
        name: the kernel's.
        gpu: e.g. "H200".
        config: what the caller says of its configuration.
        registers: of a thread, at launch.
        spill_bytes: of registers that did not fit, in our assembling or in XLA's own.
        smem_bytes: shared memory of a block, static and dynamic.
        tensor_core_instructions: in the main loop.
        alu_instructions_per_weight: of the ALU pipe, in the main loop.
        issue_slots_per_weight: all instructions of the main loop.
        smem_bytes_per_weight: shared-memory traffic: loads and stores in the main loop at their
            width, what TMA writes, what tensor cores read.
        smem_bandwidth_per_weight: the same where each access counts at least the 4 bytes that a
            bank serves in its time, which is what a load of single bytes costs.
        hbm_bytes_per_weight: as the caller says.
        main_loop: instructions of the main loop by opcode.
        main_loop_pipes: the same by pipe.
        inner_loop_instructions: how many of them are in inner loops, each counted once.
        waiting_instructions: left out: spins on barriers and code for warps whose lanes have
            parted.
        kernel_instructions: instructions of the whole kernel.
        kernel_tensor_core_instructions: those of them on the tensor cores.
        warnings: losses that ptxas points out, such as serialised wgmma or setmaxnreg ignored.
    """

    name: str
    gpu: str
    config: Mapping[str, Any]
    registers: int
    spill_bytes: int
    smem_bytes: int
    tensor_core_instructions: int
    alu_instructions_per_weight: float
    issue_slots_per_weight: float
    smem_bytes_per_weight: float
    smem_bandwidth_per_weight: float
    hbm_bytes_per_weight: float
    main_loop: Mapping[str, int]
    main_loop_pipes: Mapping[str, int]
    inner_loop_instructions: int
    waiting_instructions: int
    kernel_instructions: int
    kernel_tensor_core_instructions: int
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dataclasses.asdict(self)


def report_kernel(
    name: str,
    gpu: str,
    config: Mapping[str, Any],
    *,
    kernel: MosaicKernel,
    function: Function,
    resources: Resources,
    work: LoopWork,
) -> KernelReport:
    """Put together what the compilers said and what the machine code shows.

    Args:
        name: the kernel's, for people.
        gpu: the GPU's.
        config: of the kernel, for people.
        kernel: as Mosaic and XLA left it.
        function: its machine code.
        resources: what ptxas said when we assembled it.
        work: what a trip of its main loop does.

    Raises:
        CompileError: the machine code has no instruction that can be counted.
    """
    loop = main_loop(function, kind=work.loop, depth=work.loop_depth)
    if not loop.instructions:
        raise CompileError.of(name, "error", "a kernel has instructions", got="none")
    pipes = collections.Counter(each.pipe for each in loop.instructions)
    built = parse_log(kernel.build_log)
    loop_warnings = () if not loop.is_whole_kernel else ("no loop: counted from start to end",)
    return KernelReport(
        name=name,
        gpu=gpu,
        config=dict(config),
        registers=resources.registers,
        spill_bytes=max(resources.spill_bytes, built.spill_bytes),
        smem_bytes=kernel.smem_bytes + resources.static_smem_bytes,
        tensor_core_instructions=pipes[Pipe.TENSOR],
        alu_instructions_per_weight=pipes[Pipe.ALU] / work.weights_per_thread,
        issue_slots_per_weight=len(loop.instructions) / work.weights_per_thread,
        smem_bytes_per_weight=_smem_bytes_per_weight(loop, work, least=0),
        smem_bandwidth_per_weight=_smem_bytes_per_weight(loop, work, least=BANK_BYTES),
        hbm_bytes_per_weight=work.hbm_bytes_per_weight,
        main_loop=_histogram(loop.instructions),
        main_loop_pipes={pipe.value: count for pipe, count in pipes.most_common()},
        inner_loop_instructions=loop.inner,
        waiting_instructions=loop.waiting,
        kernel_instructions=len(function.instructions),
        kernel_tensor_core_instructions=sum(
            each.pipe is Pipe.TENSOR for each in function.instructions
        ),
        warnings=tuple(dict.fromkeys((*resources.warnings, *built.warnings, *loop_warnings))),
    )


def worse_of(one: KernelReport, other: KernelReport) -> KernelReport:
    """Of two builds the one with the longer main loop, and the most that either takes at launch."""
    longer = max(one, other, key=_slots)
    return dataclasses.replace(
        longer,
        registers=max(one.registers, other.registers),
        spill_bytes=max(one.spill_bytes, other.spill_bytes),
        smem_bytes=max(one.smem_bytes, other.smem_bytes),
        warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))),
    )


def _slots(report: KernelReport) -> tuple[float, float]:
    return report.issue_slots_per_weight, report.alu_instructions_per_weight


def _smem_bytes_per_weight(loop: MainLoop, work: LoopWork, *, least: int) -> float:
    """A warp's 32 lanes move 32 times the bytes of one and decode 32 times its weights."""
    widths = (smem_bytes_per_lane(each.opcode) for each in loop.instructions)
    moved = sum(max(width, least) for width in widths if width) / work.weights_per_thread
    return moved + work.tma_smem_bytes_per_weight + work.tensor_smem_bytes_per_weight


def _histogram(instructions: tuple[Instruction, ...]) -> dict[str, int]:
    counted = collections.Counter(each.opcode for each in instructions)
    return dict(counted.most_common())
