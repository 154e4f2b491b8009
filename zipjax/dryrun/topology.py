"""Which GPUs a program is compiled for, and how many: "h200:8x8" is 8 nodes of 8."""

import dataclasses
import re

from pallas_kernels import ArgumentError, Gpu, gpu_of

# XLA numbers devices in 32 bits; a cluster of more GPUs than this is a slip of the pen.
_NUM_GPUS_MAX = 65_536


@dataclasses.dataclass(frozen=True)
class Topology:
    """A cluster of equal nodes.

    Attributes:
        gpu: its kind.
        num_nodes: hosts; what crosses them goes over the network.
        gpus_per_node: GPUs of each host.
    """

    gpu: Gpu
    num_nodes: int = 1
    gpus_per_node: int = 1

    def __post_init__(self):
        """Both counts are at least one."""
        if min(self.num_nodes, self.gpus_per_node) < 1 or self.num_gpus > _NUM_GPUS_MAX:
            raise ArgumentError(
                f"a topology has 1 to {_NUM_GPUS_MAX:,} GPUs",
                got=f"{self.num_nodes}x{self.gpus_per_node}",
            )

    def __str__(self) -> str:
        name = self.gpu.name.casefold().replace(" ", "_")
        return f"{name}:{self.num_nodes}x{self.gpus_per_node}"

    @property
    def num_gpus(self) -> int:
        """All of them."""
        return self.num_nodes * self.gpus_per_node

    @property
    def xla_name(self) -> str:
        """What XLA calls it: partitions x hosts x devices of each."""
        return f"1x{self.num_nodes}x{self.gpus_per_node}"


def parse_topology(text: str) -> Topology:
    """Read "h200", "h200:8" (one node) or "h200:4x8" (nodes x GPUs of each).

    Args:
        text: the kind as `pallas_kernels.gpu_of` knows it, in any case, and the counts.

    Raises:
        ArgumentError: the counts cannot be read, or are none.
        UnsupportedError: an unknown GPU; the message offers the nearest one.
    """
    name, _, counts = text.strip().partition(":")
    if ":" in text and not re.fullmatch(r"\d{1,6}(x\d{1,6})?", counts):
        raise ArgumentError(
            "a topology is GPU, GPU:GPUS or GPU:NODESxGPUS",
            got=repr(text),
            fix="write for example h200:1x8 for one node of eight",
        )
    gpu = gpu_of(name)
    sizes = [int(size) for size in counts.split("x")] if counts else [1]
    return Topology(gpu, *(sizes if len(sizes) == 2 else (1, *sizes)))
