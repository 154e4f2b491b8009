"""A workload on a machine as work for resources: what strategies schedule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from parallel.planner.cost import Cost, Line
from parallel.planner.shop import Stage
from parallel.planner.simulate import Contention


class Work(NamedTuple):
    """Something a layer must do, which may be cut into chunks.

    Attributes:
        name: shown in pictures.
        resource: "compute", "inter" or "intra".
        cost: of one operation, by its amount.
        amount: of the whole layer.
        times: operations one after the other for each chunk; the backward pass has 2 products.
    """

    name: str
    resource: str
    cost: Cost
    amount: float
    times: int = 1

    def seconds(self, num_chunks: int) -> float:
        """Of one of `num_chunks` equal chunks."""
        return self.times * self.cost(self.amount / num_chunks)


@dataclass(frozen=True)
class Pass:
    """One direction through a layer.

    Attributes:
        dense: the chain of attention and whatever else is no mixture; not on the slow link.
        moe: the chain of the mixture: dispatch to combine.
    """

    dense: tuple[Work, ...]
    moe: tuple[Work, ...]


@dataclass(frozen=True)
class Step:
    """A training or serving step.

    Attributes:
        num_layers: all alike.
        forward: of one layer.
        backward: of one layer; None when serving.
        gradient_nbytes: of one layer, to be all-reduced over the slow link.
        all_reduce: cost of that, by bytes.
        contention: who slows whom down.
    """

    num_layers: int
    forward: Pass
    backward: Pass | None = None
    gradient_nbytes: float = 0.0
    all_reduce: Line = field(default=Line(0.0, 0.0))
    contention: tuple[Contention, ...] = ()

    @property
    def passes(self) -> dict[str, Pass]:
        """By name, in the order in which they run."""
        both = {"forward": self.forward}
        return both if self.backward is None else both | {"backward": self.backward}


def stages_of(works: Sequence[Work], num_chunks: int) -> list[Stage]:
    """Stages for one of `num_chunks` chunks; those that take no time are left out."""
    stages = (Stage(work.name, work.resource, work.seconds(num_chunks)) for work in works)
    return [stage for stage in stages if stage.seconds > 0]


def on_one_link(step: Step) -> Step:
    """The same step where all communication shares one stream, as most systems have it."""

    return with_moe(step, lambda chain: tuple(map(_on_inter, chain)))


def with_moe(step: Step, change: Callable[[tuple[Work, ...]], tuple[Work, ...]]) -> Step:
    """The same step with another mixture, forward and backward."""
    forward = replace(step.forward, moe=change(step.forward.moe))
    if step.backward is None:
        return replace(step, forward=forward)
    return replace(
        step, forward=forward, backward=replace(step.backward, moe=change(step.backward.moe))
    )


def _on_inter(work: Work) -> Work:
    return work if work.resource == "compute" else work._replace(resource="inter")
