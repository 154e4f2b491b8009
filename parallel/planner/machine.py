"""A machine as the planner sees it: two links, the kernels of a device, a codec, and sources."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pallas_kernels import ArgumentError
from parallel.planner.cost import Cost, Line
from parallel.planner.simulate import Contention

# "flat_all_to_all" is one exchange over all devices, whatever node they are on.
COLLECTIVES = ("all_to_all", "flat_all_to_all", "all_gather", "reduce_scatter", "all_reduce")


@dataclass(frozen=True, kw_only=True)
class Link:
    """What connects the devices along one axis of a mesh.

    Attributes:
        latency_s: seconds of one message without bytes.
        s_per_byte: seconds per byte that a device sends, all of its group sending at once.
        fits: measured costs of collectives by name; each holds for the group it was measured on.
    """

    latency_s: float
    s_per_byte: float
    fits: Mapping[str, Cost] = field(default_factory=dict)

    def __post_init__(self):
        if unknown := sorted(set(self.fits) - set(COLLECTIVES)):
            raise ArgumentError(f"collectives are {', '.join(COLLECTIVES)}", got=unknown)
        Line(self.latency_s, self.s_per_byte)  # refuses negative figures

    def flat_cost(self, num_inter: int, num_intra: int) -> Cost:
        """Seconds of one exchange over all devices by a device's bytes; this is the slow link.

        Only what leaves the node takes its time, but every device gets a message.
        """
        if num_inter * num_intra == 1:
            return Line(0.0, 0.0)
        if "flat_all_to_all" in self.fits:
            return self.fits["flat_all_to_all"]
        if "all_to_all" in self.fits:
            return self.fits["all_to_all"]
        num_messages = num_inter * num_intra - 1
        return Line(num_messages * self.latency_s, (1 - 1 / num_inter) * self.s_per_byte)

    def cost(self, collective: str, num_ranks: int) -> Cost:
        """Seconds of a collective by the bytes of the larger of a device's operand and result.

        A measured cost is used as it is. Else P ranks exchange directly, or in a ring, in P - 1
        messages of 1/P of the bytes, and an all-reduce does that twice.

        Args:
            collective: one of `COLLECTIVES`.
            num_ranks: devices of the group; 1 needs no time.
        """
        if collective not in COLLECTIVES:
            raise ArgumentError(f"collectives are {', '.join(COLLECTIVES)}", got=collective)
        if num_ranks == 1:
            return Line(0.0, 0.0)
        if collective in self.fits:
            return self.fits[collective]
        times = 2 if collective == "all_reduce" else 1
        num_messages = times * (num_ranks - 1)
        return Line(num_messages * self.latency_s, num_messages / num_ranks * self.s_per_byte)


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """How fast a device computes.

    Attributes:
        flops_per_s: that a large matrix product reaches; a multiply-add is two.
        bytes_per_s: of device memory that a kernel reaches.
        launch_s: seconds to start a kernel.
        matmul: measured cost of a matrix product by its operations; instead of the roofline.
    """

    flops_per_s: float
    bytes_per_s: float
    launch_s: float
    matmul: Line | None = None

    def __post_init__(self):
        if not (self.flops_per_s > 0 and self.bytes_per_s > 0 and self.launch_s >= 0):
            raise ArgumentError("kernels need rates above zero and launch_s >= 0", got=self)


@dataclass(frozen=True, kw_only=True)
class CodecRate:
    """A lossless codec before and after a slow link.

    Attributes:
        ratio: compressed over raw bytes.
        encode_bytes_per_s: raw bytes that a device encodes.
        decode_bytes_per_s: raw bytes that a device decodes.
        start_s: seconds to start either.
    """

    ratio: float
    encode_bytes_per_s: float
    decode_bytes_per_s: float
    start_s: float

    def __post_init__(self):
        if not (0 < self.ratio and self.encode_bytes_per_s > 0 and self.decode_bytes_per_s > 0):
            raise ArgumentError("a codec needs a ratio and rates above zero", got=self)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A kind of cluster.

    Attributes:
        name: what people call it.
        inter: the slow link, between nodes.
        intra: the fast link, within a node.
        num_intra: devices of a node.
        kernels: of one device.
        sources: where each group of figures is from; at least one.
        codec: for the slow link; None where there is none.
        contention: who slows whom down.
    """

    name: str
    inter: Link
    intra: Link
    num_intra: int
    kernels: Kernels
    sources: Mapping[str, str]
    codec: CodecRate | None = None
    contention: tuple[Contention, ...] = ()

    def __post_init__(self):
        if not self.sources:
            raise ArgumentError("a machine needs the sources of its figures", got=self.name)
        if self.num_intra < 1:
            raise ArgumentError("num_intra must be at least 1", got=self.num_intra)
