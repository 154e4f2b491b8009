"""One chain of a layer, cut into chunks and put in order: what a plan says of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from parallel.planner.shop import Order, Stage, operations, run_order, tasks_of
from parallel.planner.simulate import Contention, simulate


@dataclass(frozen=True)
class Block:
    """A chain's degree and order.

    Attributes:
        name: "attention" or "mixture", for people.
        stages: of a chunk.
        num_chunks: equal chunks that the chain is cut into.
        order: of operations, as in `parallel.planner.shop`.
        seconds: from first start to last end.
        idle_s: of these, how long the slow link can take an exchange without prolonging the block.
        place: where in the order that exchange stands: before the operation of this index.
    """

    name: str
    stages: tuple[Stage, ...]
    num_chunks: int
    order: Order
    seconds: float
    idle_s: float
    place: int


def block_of(
    stages: Sequence[Stage],
    num_chunks: int,
    order: Order,
    contention: tuple[Contention, ...] = (),
) -> Block:
    """Time an order, and find the place for an exchange of gradients.

    Args:
        stages: of a chunk.
        num_chunks: how many.
        order: as in `parallel.planner.shop`.
        contention: who slows whom down.
    """
    name = "attention" if any(stage.name == "attention" for stage in stages) else "mixture"
    seconds = order_seconds(stages, order, contention)
    # Under contention what runs beside a kernel is not for nothing, however idle its link.
    idle_s, place = (0.0, len(order)) if contention else _longest_idle(stages, order, seconds)
    return Block(name, tuple(stages), num_chunks, order, seconds, idle_s, place)


def order_seconds(
    stages: Sequence[Stage], order: Order, contention: tuple[Contention, ...] = ()
) -> float:
    """Seconds that an order takes."""
    if not contention:
        return run_order(stages, order)
    return simulate(tasks_of(stages, order), in_order=True, contention=contention).makespan_s


def _longest_idle(stages: Sequence[Stage], order: Order, seconds: float) -> tuple[float, int]:
    """The longest exchange that one place in the order takes for nothing, and the place.

    It starts when the link's operation before it ends, all having started as early as they can, and
    must have ended when the one behind it starts, all starting as late as they can.
    """
    num_stages = len(stages)
    early_ends = [end for *_, end in operations(stages, order)]
    # The same schedule seen from its end: seconds from the start of an operation to the end.
    mirrored = tuple(num_stages - 1 - s for s in reversed(order))
    to_go = [end for *_, end in operations(stages[::-1], mirrored)][::-1]
    on_link = [i for i, s in enumerate(order) if stages[s].resource == "inter"]
    best = (0.0, len(order))
    free_s = 0.0
    for i in on_link:
        best = max(best, (seconds - to_go[i] - free_s, i))
        free_s = early_ends[i]
    return max(best, (seconds - free_s, len(order)))
