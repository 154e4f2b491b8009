"""ptxas' logs are read, and what they and the machine code say becomes a report."""

import dataclasses

import pytest

from pallas_kernels import ArgumentError
from zipjax.dryrun import LoopWork, MosaicKernel
from zipjax.dryrun.log import begin, last_words
from zipjax.dryrun.ptxas import Resources, parse_log
from zipjax.dryrun.report import report_kernel, worse_of
from zipjax.dryrun.sass import parse_sass

LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'toy' for 'sm_90a'
ptxas info    : Function properties for toy
    16 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to insufficient register resources for the function 'toy'
ptxas info    : Used 168 registers, used 16 barriers, 17 bytes smem
ptxas info    : Compile time = 44.372 ms
"""
LINKED = """\
ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility \
across compilation units.
ptxas info    : Used 108 registers, used 16 barriers, 17 bytes smem
ptxas         .     0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
info    : used 112 registers, used 16 barriers, 0 stack, 1025 bytes smem, 960 bytes cmem[0]
\0"""
SASS = """
	.section	.text.toy,"ax",@progbits
.L_x_0:
        /*0000*/                   LDS.128 R4, [R0] ;
        /*0008*/                   STS.U8 [R1], R2 ;
        /*0010*/                   LOP3.LUT R8, R4, 0x80ff80ff, R9, 0x6a, !PT ;
        /*0020*/                   LOP3.LUT R9, R4, 0x80ff80ff, R9, 0x6a, !PT ;
        /*0030*/                   HGMMA.64x16x16.F32.BF16 R24, R44, gdesc[UR12], R24 ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/                   EXIT ;
"""


def report(work: LoopWork, build_log: str = ""):
    (function,) = parse_sass(SASS)
    return report_kernel(
        "toy",
        "H200",
        {"M": 16},
        kernel=MosaicKernel(name="toy_0", ptx="", build_log=build_log, smem_bytes=1000),
        function=function,
        resources=parse_log(LOG),
        work=work,
    )


def test_a_log_of_ptxas_is_read():
    assert parse_log(LOG) == Resources(
        registers=168,
        spill_bytes=64,
        static_smem_bytes=17,
        barriers=16,
        warnings=(
            "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
            "to insufficient register resources for the function 'toy'",
        ),
    )


def test_a_log_of_a_linked_build_is_read():
    resources = parse_log(LINKED)
    assert (resources.registers, resources.spill_bytes) == (112, 16)
    assert resources.warnings[0].startswith("(C7504) Potential Performance Loss: 'setmaxnreg'")


def test_figures_are_per_weight():
    got = report(
        LoopWork(
            weights_per_thread=8,
            tma_smem_bytes_per_weight=1.5,
            tensor_smem_bytes_per_weight=16 / 32,
            hbm_bytes_per_weight=1.41,
        )
    )
    assert got.alu_instructions_per_weight == 2 / 8
    assert got.issue_slots_per_weight == 6 / 8
    assert got.smem_bytes_per_weight == (16 + 1) / 8 + 1.5 + 0.5
    assert got.smem_bandwidth_per_weight == (16 + 4) / 8 + 1.5 + 0.5
    assert got.hbm_bytes_per_weight == 1.41
    assert got.tensor_core_instructions == 1
    assert got.smem_bytes == 1000 + 17
    assert got.main_loop["LOP3.LUT"] == 2
    assert got.main_loop_pipes == {"alu": 2, "shared": 2, "tensor": 1, "control": 1}
    assert got.kernel_instructions == 7


def test_the_worse_of_two_builds_counts():
    got = report(LoopWork(weights_per_thread=8), build_log=LINKED.replace("8 bytes", "80 bytes"))
    assert got.spill_bytes == 160
    assert len(got.warnings) == 2


def test_of_two_builds_each_figure_is_the_worse():
    one = report(LoopWork(weights_per_thread=8))
    other = dataclasses.replace(
        one, issue_slots_per_weight=9, main_loop={"NOP": 72}, registers=9, warnings=("a",)
    )
    got = worse_of(one, other)
    assert worse_of(other, one) == dataclasses.replace(got, warnings=("a", *one.warnings))
    assert (got.issue_slots_per_weight, got.main_loop) == (9, {"NOP": 72})
    assert got.registers == 168
    assert got.warnings == (*one.warnings, "a")


def test_what_a_matrix_product_moves():
    """A step of K = 256 of a block of 128 columns at M = 16, in bytes, over its weights."""
    weights = 128 * 256
    work = LoopWork.of_matmul(
        num_rows=16, columns_per_block=128, bits_per_weight=11, weights_per_thread=128, loop_depth=1
    )
    assert work.tma_smem_bytes_per_weight == (weights * 11 / 8 + 16 * 256 * 2) / weights
    num_wgmma = weights / (64 * 16)
    assert work.tensor_smem_bytes_per_weight == num_wgmma * 16 * 16 * 2 / weights
    assert work.hbm_bytes_per_weight == 11 / 8
    assert work.loop_depth == 1


@pytest.mark.parametrize("work", [{"weights_per_thread": 0}, {"tma_smem_bytes_per_weight": -1}])
def test_work_that_cannot_be_is_refused(work):
    with pytest.raises(ArgumentError, match="more than 0 weights"):
        LoopWork(**({"weights_per_thread": 1} | work))


CHILD = (
    begin(0)
    + 'loc("run"("kernel.py":75:12)): error: \'nvvm.wgmma\' op is not supported on sm_100a.\n'
    + "Traceback (most recent call last):\nValueError: Pass pipeline failed\n"
    + begin(1)
    + "LLVM ERROR: Cannot select: intrinsic\nFatal Python error: Aborted\n  File error.py\n"
    + begin(2)
    + "half\n"
)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (0, "error: 'nvvm.wgmma' op is not supported on sm_100a"),
        (1, "LLVM ERROR: Cannot select: intrinsic"),
        (2, "half"),
        (3, ""),
    ],
)
def test_last_words_are_those_that_say_why(index, words):
    assert last_words(CHILD, index) == words
