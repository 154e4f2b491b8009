"""Which execution pipe an instruction of NVIDIA's machine code takes.

NVIDIA Nsight Compute documentation, "Metrics Decoder", section Pipelines, says what each pipe does;
NVIDIA "CUDA Binary Utilities", "Instruction Set Reference", says what each opcode does. What
neither names counts as ALU, the pipe of which a decoder needs most, so that no instruction goes
free.
"""

import enum


class Pipe(enum.StrEnum):
    """Where an instruction executes; each takes one issue slot whatever its pipe."""

    ALU = "alu"  # logic, shifts, compares, integer additions: 64 lanes a clock and multiprocessor
    FMA = "fma"  # multiply-adds, integer ones too: 64 to 128 lanes
    XU = "xu"  # conversions, population counts, transcendentals: 16 lanes
    SHARED = "shared"  # loads and stores of shared memory
    MEMORY = "memory"  # device memory, constants, tensor memory, and the commands for TMA
    SHUFFLE = "shuffle"  # exchange between lanes
    UNIFORM = "uniform"  # once a warp instead of once a lane
    TENSOR = "tensor"  # matrix multiply-accumulate
    CONTROL = "control"  # branches, barriers, fences, waits


# An opcode takes the pipe of its longest prefix here.
_PREFIXES = {
    Pipe.ALU: """
        LOP SHF SHL SHR PRMT IADD VIADD IABS ISETP SEL LEA ISCADD IMNMX VIMNMX VABSDIFF BMSK SGXT
        PLOP VOTE MATCH ELECT R2P P2R FSETP FSEL FMNMX F2FP I2FP F2IP MOV CS2R
    """,
    Pipe.FMA: "IMAD IMUL IDP FFMA FMUL FADD HFMA2 HMUL2 HADD2",
    Pipe.XU: "MUFU F2I F2F I2F I2I FRND POPC FLO BREV S2R",
    Pipe.SHARED: "LDS STS ATOMS LDSM STSM",
    Pipe.MEMORY: """
        LD LDG LDL LDC ST STG STL ATOM ATOMG RED LDGSTS LDGDEPBAR CCTL SULD SUST TEX
        UTMA UBLKCP UBLKRED UBLKPF LDTM STTM
    """,
    Pipe.SHUFFLE: "SHFL",
    Pipe.UNIFORM: "U R2UR S2UR VOTEU REDUX CREDUX",
    Pipe.TENSOR: """
        HGMMA IGMMA QGMMA BGMMA HMMA IMMA BMMA DMMA QMMA OMMA
        UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA
    """,
    Pipe.CONTROL: """
        BRA BRX JMP JMX CALL RET EXIT KILL BSSY BSYNC BREAK BMOV LEPC NOP YIELD NANOSLEEP PREEXIT
        BAR BARRIER B2R R2B WARPSYNC WARPGROUP SYNCS USYNCS DEPBAR MEMBAR FENCE ERRBAR CGAERRBAR
        UCGABAR UTCBAR UTCATOMSWS ACQBULK ENDCOLLECTIVE USETMAXREG
    """,
}
_PIPE_OF = {prefix: pipe for pipe, prefixes in _PREFIXES.items() for prefix in prefixes.split()}
_PREFIX_LENGTH_MAX = max(map(len, _PIPE_OF))


def pipe_of(opcode: str) -> Pipe:
    """The pipe of an opcode, e.g. of "LOP3.LUT"; what is unknown counts as ALU."""
    name = opcode.partition(".")[0]
    for length in range(min(len(name), _PREFIX_LENGTH_MAX), 0, -1):
        if name[:length] in _PIPE_OF:
            return _PIPE_OF[name[:length]]
    return Pipe.ALU


# A bank of shared memory serves 4 bytes a clock, to a narrower access too.
BANK_BYTES = 4
_MATRIX_BYTES = 4  # ldmatrix, stmatrix: a lane's share of 8 x 8 matrices of 16 bits
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def smem_bytes_per_lane(opcode: str) -> int:
    """Bytes of shared memory that an instruction moves for each of its lanes."""
    name, *modifiers = opcode.split(".")
    if name in ("LDSM", "STSM"):  # LDSM.16.MT88.4 moves four matrices
        counts = [int(modifier) for modifier in modifiers if modifier in ("2", "4")]
        return _MATRIX_BYTES * (counts[0] if counts else 1)
    if name not in ("LDS", "STS", "ATOMS"):
        return 0
    widths = [_WIDTHS[modifier] for modifier in modifiers if modifier in _WIDTHS]
    return widths[0] if widths else 4
