"""The contention-aware schedule: a matrix product beside a collective, held back and in pieces.

A collective needs a few multiprocessors. Launched after a product it waits until the wave of thread
blocks that runs has ended, a whole piece here, and the pipeline stalls. Two remedies: hold the next
piece back until the collective has been launched, and cut the product into pieces, so that there is
an end to wait for; each piece costs a launch. While both run, the product is slower by a factor.

Only the paper's abstract was at hand: this model is ours. The best number of pieces and the best
piece to hold back are found by trying them all.
"""

from dataclasses import dataclass

from pallas_kernels import ArgumentError
from parallel.planner.simulate import Contention, simulate
from parallel.planner.task import Task


@dataclass(frozen=True)
class Pair:
    """A product and a collective that becomes ready some time after the product may start.

    Attributes:
        product_s: seconds of the product alone, in one piece, its launch left out.
        launch_s: seconds to launch a piece.
        collective_s: seconds of the collective.
        ready_s: when it is ready.
        factor: so many times slower is the product while the collective runs, at least 1.
    """

    product_s: float
    launch_s: float
    collective_s: float
    ready_s: float
    factor: float

    def __post_init__(self):
        if min(self.product_s, self.launch_s, self.collective_s, self.ready_s) < 0:
            raise ArgumentError("seconds must not be negative", got=self)
        if self.factor < 1:
            raise ArgumentError("the factor must be at least 1", got=self.factor)


@dataclass(frozen=True)
class Split:
    """What to do.

    Attributes:
        num_pieces: of the product.
        held: the piece that waits until the collective runs; `num_pieces` when none does.
        seconds: until both have ended.
    """

    num_pieces: int
    held: int
    seconds: float


def best_split(pair: Pair, *, num_pieces_max: int = 16) -> Split:
    """The split that ends first; of those the one with the fewest pieces.

    Args:
        pair: the two.
        num_pieces_max: the most pieces to try.
    """
    splits = (
        Split(num, held, split_s(pair, num, held))
        for num in range(1, num_pieces_max + 1)
        for held in range(num + 1)
    )
    return min(splits, key=lambda split: (split.seconds, split.num_pieces, split.held))


def split_s(pair: Pair, num_pieces: int, held: int) -> float:
    """Seconds until both have ended.

    Args:
        pair: the two.
        num_pieces: of the product.
        held: the piece that waits for the collective; `num_pieces` when none does.
    """
    return simulate(split_tasks(pair, num_pieces, held), contention=_slower(pair)).makespan_s


def split_tasks(pair: Pair, num_pieces: int, held: int) -> list[Task]:
    """The task graph of a split.

    Args:
        pair: the two.
        num_pieces: of the product.
        held: as in `Split`.
    """
    piece_s = pair.launch_s + pair.product_s / num_pieces
    # Without contention: when each piece would start, for the wait of the collective.
    before = min(held, num_pieces)
    num_gone = 0
    while num_gone < before and num_gone * piece_s < pair.ready_s:
        num_gone += 1
    tasks = [Task("before it is ready", "wait", pair.ready_s)]
    for i in range(num_pieces):
        waits: tuple[int, ...] = (i,) if i else ()
        if i == held:
            # A collective of no length has been launched when it is ready.
            waits = (*waits, 0)
        tasks.append(Task(f"piece {i}", "compute", piece_s, waits, i))
    # The collective is launched where a piece ends, or at once if none runs.
    gate = (0,) if num_gone == 0 else (0, num_gone)
    tasks.append(Task("collective", "inter", pair.collective_s, gate))
    return tasks


def _slower(pair: Pair) -> tuple[Contention, ...]:
    return (Contention("compute", "inter", pair.factor),)
