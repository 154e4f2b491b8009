"""One chain of a layer, cut into chunks and put in order: what a plan says of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from parallel.planner.shop import Order, Stage, run_order, tasks_of
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
    name = "mixture" if any(stage.resource == "inter" for stage in stages) else "attention"
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

    With an exchange of x seconds at a place the order takes max(seconds, x + rest), since a
    critical path meets the exchange once: so `seconds - rest` is for nothing. One as long as the
    block shows the rest.
    """
    exchange = [Stage("exchange", "inter", seconds)]
    on_link = [i for i, s in enumerate(order) if stages[s].resource == "inter"]
    # Before the first operation, after the last, and between any two.
    best = (0.0, len(order))
    for place in dict.fromkeys([0, *(i + 1 for i in on_link), len(order)]):
        longer = (*order[:place], len(stages), *order[place:])
        rest = run_order(stages, longer, exchange) - seconds
        best = max(best, (seconds - rest, place))
    return best
