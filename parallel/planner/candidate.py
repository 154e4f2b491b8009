"""What a strategy proposes, and how long it would take."""

from dataclasses import dataclass, field

from parallel.planner.block import Block
from parallel.planner.build import Variant
from parallel.planner.shop import Order


@dataclass(frozen=True)
class PassPlan:
    """One direction through a layer; the next layer starts when it has ended.

    Attributes:
        blocks: one after the other: attention and mixture, or in the backward pass the reverse.
    """

    blocks: tuple[Block, ...]

    @property
    def seconds(self) -> float:
        """Of one layer."""
        return sum(block.seconds for block in self.blocks)

    @property
    def mixture(self) -> Block:
        """The first block that is not attention."""
        return next(block for block in self.blocks if block.name == "mixture")


@dataclass(frozen=True)
class Across:
    """Parts of a batch through all layers, overlapping.

    Attributes:
        num_parts: equal parts of the batch.
        orders: of operations, the stages of all layers counted on: forward and, in training,
            backward.
    """

    num_parts: int
    orders: tuple[Order, ...]


@dataclass(frozen=True)
class Disaggregated:
    """Attention and experts on devices of their own (FinDEP).

    Attributes:
        num_attention: devices that hold attention.
        num_experts: devices that hold experts.
        num_micro: micro-batches.
        num_parts: parts of each.
        sequencing: "ASAS" or "AASS".
    """

    num_attention: int
    num_experts: int
    num_micro: int
    num_parts: int
    sequencing: str


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A complete schedule of a step.

    Attributes:
        strategy: who proposes it.
        seconds: predicted for a step.
        variant: how tokens travel.
        one_link: whether all communication shares one stream.
        forward: each layer after the other; None where layers overlap.
        backward: the same; None when serving or where layers overlap.
        across: where layers overlap.
        disaggregated: where attention and experts are on devices of their own.
        gradients: bytes of all-reduces in each window of the backward pass: for every layer, last
            first, during each of its blocks; then after the pass. Where layers overlap: in every
            idle time of the slow link; then after the pass.
        gradient_piece_nbytes: largest piece in which gradients are exchanged; 0 when windows are
            not divided.
        reason: in a few words, for people.
    """

    strategy: str
    seconds: float
    variant: Variant = field(default_factory=Variant)
    one_link: bool = False
    forward: PassPlan | None = None
    backward: PassPlan | None = None
    across: Across | None = None
    disaggregated: Disaggregated | None = None
    gradients: tuple[float, ...] = ()
    gradient_piece_nbytes: float = 0.0
    reason: str = ""
