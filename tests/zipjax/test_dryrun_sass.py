"""Machine code is read, its loops are found, its instructions go to their pipes."""

import textwrap

import pytest

from pallas_kernels import FormatError
from zipjax.dryrun.loops import ControlFlow, main_loop
from zipjax.dryrun.pipes import Pipe, pipe_of, smem_bytes_per_lane
from zipjax.dryrun.sass import entry_function, parse_sass

# As `nvdisasm -c` prints it: a loop whose wait for its data was moved behind the kernel's end.
WAITING = """
	.target	sm_90a

//--------------------- .text.toy --------------------------
	.section	.text.toy,"ax",@progbits
	.align	128
        .global         toy
toy:
.text.toy:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   UMOV UR4, 0x400 ;
.L_x_2:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2 ;
        /*0030*/              @!P0 BRA `(.L_x_0) ;
.L_x_3:
        /*0040*/                   LDS.128 R4, [R0+0x10] ;
        /*0050*/                   LOP3.LUT R8, R4.reuse, 0x80ff80ff, R9, 0x6a, !PT ;
        /*0060*/                   IMAD.SHL.U32 R10, R5, 0x8, RZ ;
        /*0070*/                   HGMMA.64x16x16.F32.BF16 R24, R44, gdesc[UR12], R24 ;
        /*0080*/                   UIADD3 UR4, UR4, 0x1, URZ ;
        /*0090*/              @!P1 BRA `(.L_x_2) ;
        /*00a0*/                   EXIT ;
.L_x_0:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+URZ], R2 ;
        /*00c0*/              @!P0 NANOSLEEP.SYNCS 0x989680 ;
        /*00d0*/              @!P0 SYNCS.PHASECHK.TRANS64 P0, [R3+URZ], R2 ;
        /*00e0*/              @!P0 BRA `(.L_x_0) ;
        /*00f0*/                   BRA `(.L_x_3) ;
.L_x_4:
        /*0100*/                   BRA `(.L_x_4);
.L_x_5:
"""


def function(text: str):
    """One function from lines of "label:" and "[@guard] OPCODE operands"."""
    lines = ['\t.section\t.text.f,"ax",@progbits']
    for i, line in enumerate(textwrap.dedent(text).split("\n")):
        line = line.strip()
        if line.endswith(":"):
            lines.append(f".L_{line}")
        elif line:
            lines.append(f"        /*{16 * i:04x}*/  {line} ;")
    (parsed,) = parse_sass("\n".join(lines))
    return parsed


def opcodes(loop) -> list[str]:
    return [instruction.opcode.partition(".")[0] for instruction in loop.instructions]


def test_what_nvdisasm_prints_is_read():
    (toy,) = parse_sass(WAITING)
    assert toy.name == "toy"
    assert len(toy.instructions) == 17
    branch = toy.instructions[3]
    assert (branch.opcode, branch.guard, branch.target) == ("BRA", "!P0", 11)
    assert branch.is_conditional and not toy.instructions[15].is_conditional
    assert toy.instructions[4].operands == "R4, [R0+0x10]"


def test_a_spin_behind_the_end_is_no_part_of_a_trip():
    """It and its jump back are reached from the loop and return to it, but only by late data."""
    (toy,) = parse_sass(WAITING)
    loop = main_loop(toy)
    assert opcodes(loop) == "SYNCS BRA LDS LOP3 IMAD HGMMA UIADD3 BRA".split()
    assert loop.waiting == 5
    assert loop.inner == 0


def test_a_spin_in_line_counts_once():
    loop = main_loop(
        function(
            """
            again:
            wait:
              SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2
              @!P0 BRA `(.L_wait)
              HGMMA.64x16x16.F32.BF16 R24, R44, gdesc[UR12], R24
              @P1 BRA `(.L_again)
              EXIT
            """
        )
    )
    assert opcodes(loop) == "SYNCS BRA HGMMA BRA".split()
    assert loop.waiting == 0


def test_code_for_parted_lanes_is_no_part_of_a_trip():
    loop = main_loop(
        function(
            """
            again:
              BRA.DIV UR4, `(.L_parted)
              SHFL.IDX PT, R5, R4, RZ, 0x1f
            joined:
              IADD3 R1, R1, 0x1, RZ
              @P1 BRA `(.L_again)
              EXIT
            parted:
              WARPSYNC.COLLECTIVE R15, `(.L_next)
            next:
              SHFL.IDX PT, R5, R4, RZ, 0x1f
              BRA `(.L_joined)
            """
        )
    )
    assert opcodes(loop) == "BRA SHFL IADD3 BRA".split()
    assert loop.waiting == 3


NESTED = """
    tile:
      MOV R1, RZ
    step:
      HGMMA.64x16x16.F32.BF16 R24, R44, gdesc[UR12], R24
    patch:
      STS.U16 [R1], R2
      @P0 BRA `(.L_patch)
      @P1 BRA `(.L_step)
      STG.E R3, [R4]
      @P2 BRA `(.L_tile)
    copy:
      LDG.E R1, [R2]
      LDG.E R1, [R3]
      LDG.E R1, [R4]
      LDG.E R1, [R5]
      LDG.E R1, [R6]
      LDG.E R1, [R7]
      LDG.E R1, [R8]
      @P3 BRA `(.L_copy)
      EXIT
"""


def test_the_main_loop_is_the_outermost_with_tensor_cores():
    """The one that copies is longer, the one that patches is deeper."""
    loop = main_loop(function(NESTED))
    assert opcodes(loop) == "MOV HGMMA STS BRA BRA STG BRA".split()
    assert loop.inner == 4


def test_a_caller_who_knows_goes_deeper():
    loop = main_loop(function(NESTED), depth=1)
    assert opcodes(loop) == "HGMMA STS BRA BRA".split()
    assert loop.inner == 2
    assert main_loop(function(NESTED), depth=9) == loop


def test_without_tensor_cores_it_is_the_longest_loop():
    loop = main_loop(function(NESTED.replace("HGMMA", "FFMA")))
    assert opcodes(loop) == [*["LDG"] * 7, "BRA"]
    assert main_loop(function(NESTED), kind="longest") == loop


def test_without_a_loop_it_is_the_kernel():
    loop = main_loop(
        function("LDG.E R1, [R2]\n@P0 EXIT\nSTG.E [R2], R1\nEXIT\nBRA `(.L_x)\nx:\nNOP")
    )
    assert opcodes(loop) == "LDG EXIT STG EXIT".split()
    assert loop.is_whole_kernel


def test_two_jumps_back_are_one_loop():
    flow = ControlFlow(function("a:\n@P0 BRA `(.L_a)\nIADD3 R1, R1, R2, RZ\n@P1 BRA `(.L_a)\nEXIT"))
    (loop,) = flow.loops()
    assert len(loop.latches) == 2
    assert len(flow.instructions(loop.blocks)) == 3


@pytest.mark.parametrize("branch", ["BRA `(.L_gone)", "BRX R2 -0x20", "BRA 0x40"])
def test_a_branch_to_nowhere_is_refused(branch):
    with pytest.raises(FormatError, match="branch"):
        function(f"{branch}\nEXIT")


def test_the_kernel_is_the_entry():
    other = WAITING.replace(".text.toy", ".text.$guard").replace("(.L_x_", "(.L_y_")
    functions = parse_sass(WAITING + other.replace("\n.L_x_", "\n.L_y_"))
    assert [function.name for function in functions] == ["toy", "$guard"]
    assert entry_function(".visible .entry toy(\n", functions).name == "toy"
    with pytest.raises(FormatError, match="one entry"):
        entry_function(".visible .entry gone(\n", functions)


def test_an_empty_text_is_refused():
    with pytest.raises(FormatError, match="at least one function"):
        parse_sass("nvdisasm fatal: no such file")


@pytest.mark.parametrize(
    ("opcode", "pipe"),
    [
        ("LOP3.LUT", Pipe.ALU),
        ("SHF.R.U32.HI", Pipe.ALU),
        ("IMAD.SHL.U32", Pipe.FMA),
        ("POPC", Pipe.XU),
        ("LDS.128", Pipe.SHARED),
        ("LDSM.16.M88.4", Pipe.SHARED),
        ("LDG.E.U16", Pipe.MEMORY),
        ("LD.E", Pipe.MEMORY),
        ("UTMALDG.3D", Pipe.MEMORY),
        ("SHFL.IDX", Pipe.SHUFFLE),
        ("R2UR", Pipe.UNIFORM),
        ("UIADD3", Pipe.UNIFORM),
        ("VOTEU.ANY", Pipe.UNIFORM),
        ("HGMMA.64x16x16.F32.BF16", Pipe.TENSOR),
        ("UTCHMMA", Pipe.TENSOR),
        ("BRA.U", Pipe.CONTROL),
        ("USETMAXREG.DEALLOC.CTAPOOL", Pipe.CONTROL),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT", Pipe.CONTROL),
        ("QUITENEW.X", Pipe.ALU),
    ],
)
def test_each_opcode_has_its_pipe(opcode, pipe):
    assert pipe_of(opcode) is pipe


@pytest.mark.parametrize(
    ("opcode", "nbytes"),
    [
        ("LDS", 4),
        ("LDS.U16", 2),
        ("STS.U8", 1),
        ("LDS.64", 8),
        ("STS.128", 16),
        ("LDS.U.128", 16),
        ("LDSM.16.M88", 4),
        ("LDSM.16.MT88.4", 16),
        ("LDG.E.128", 0),
        ("LOP3.LUT", 0),
    ],
)
def test_shared_memory_traffic_by_width(opcode, nbytes):
    assert smem_bytes_per_lane(opcode) == nbytes
