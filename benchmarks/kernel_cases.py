"""The GPU kernels in the configurations that are shipped, with what each promises.

`kernels_static.py` compiles them. A factory here is named "kernel_cases:FUNCTION" and returns a
function and its abstract arguments (`zipjax.dryrun.Program`).
"""

import dataclasses
from collections.abc import Mapping

from pallas_kernels import Gpu
from zipjax.dryrun import KernelCase

# Bars of a whole main loop on an H200, with patches of any length. At full bandwidth of its memory
# an SM must decode 13 weights a clock, for each of which it has 9.8 issue slots, 4.9 of the ALU
# pipe and 9.8 bytes of shared memory (docs/dryrun.md).
H200_UP_TO_16_ROWS = {
    "alu_instructions_per_weight": 2.0,
    "issue_slots_per_weight": 3.6,
    "smem_bytes_per_weight": 4.6,
}
H200_UP_TO_64_ROWS = {"smem_bytes_per_weight": 7.0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticCase:
    """A kernel and what is promised of it.

    Attributes:
        kernel: what is compiled.
        at_most: fields of its report and the most that they may be. That nothing is spilled is
            promised of all.
        uses_tensor_cores: whether its main loop must hold tensor-core instructions.
    """

    kernel: KernelCase
    at_most: Mapping[str, float] = dataclasses.field(default_factory=dict)
    uses_tensor_cores: bool = False


def cases(gpu: Gpu) -> list[StaticCase]:
    """All that is shipped for a GPU."""
    return []
