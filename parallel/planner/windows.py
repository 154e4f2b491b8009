"""Hide gradient exchanges in the idle times of a link: how many bytes go where, exactly.

Along a backward pass a link has windows, in order of time: each can take an operation of some
seconds for nothing, and a longer one prolongs the step by the rest. An operation of n bytes takes
`alpha + beta * n`. Gradients come into being on the way, so by each window only so many bytes
exist. FSMoE pours them greedily and spreads what is left by differential evolution; the optimum has
a closed form. Greedily hides as much as can be hidden, since what is available stays available.
Each byte left over costs beta wherever it goes, so all of them go to one window that sees the last
gradient, the one in which an operation costs least to start.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pallas_kernels import ArgumentError
from parallel.planner.cost import Line


@dataclass(frozen=True)
class Window:
    """A time in which a link is idle.

    Attributes:
        idle_s: seconds that an operation may take here for nothing.
        produced: bytes of gradients that come into being before it and after the window before.
    """

    idle_s: float
    produced: float


@dataclass(frozen=True)
class Filling:
    """What goes where.

    Attributes:
        amounts: bytes in each window.
        exposed_s: seconds by which the step is longer.
    """

    amounts: tuple[float, ...]
    exposed_s: float


def fill(windows: Sequence[Window], cost: Line) -> Filling:
    """Choose the bytes of every window so that the step is prolonged the least.

    Args:
        windows: in order of time; put one of no idle time last, after the backward pass.
        cost: of one exchange, by its bytes.

    Raises:
        ArgumentError: gradients, but no window at all.
    """
    total = sum(window.produced for window in windows)
    if total and not windows:
        raise ArgumentError("gradients need a window to go to")
    amounts, waiting = [], 0.0
    for window in windows:
        waiting += window.produced
        hidden = min(waiting, _room(window, cost))
        amounts.append(hidden)
        waiting -= hidden
    if waiting > total * 1e-12:
        amounts[_cheapest(windows, cost)] += waiting
    return Filling(tuple(amounts), exposed_s(windows, cost, amounts))


def exposed_s(windows: Sequence[Window], cost: Line, amounts: Sequence[float]) -> float:
    """Seconds by which `amounts` prolong the step."""
    pairs = zip(windows, amounts, strict=True)
    return sum(max(0.0, cost(amount) - window.idle_s) for window, amount in pairs)


def greedy_fill(windows: Sequence[Window], cost: Line, piece: float) -> Filling:
    """The baseline of Lina: pieces of one size, each where it fits, the rest at the end.

    Args:
        windows: in order of time.
        cost: of one exchange, by its bytes.
        piece: bytes of a piece; the last one is what is left.
    """
    amounts, waiting = [], 0.0
    for window in windows:
        waiting += window.produced
        num_pieces = int(waiting / piece)
        if cost(piece):
            num_pieces = min(num_pieces, int(window.idle_s / cost(piece)))
        amounts.append(num_pieces * piece)
        waiting -= amounts[-1]
    # What is left goes last, behind the pieces hidden there.
    amounts[-1] += waiting
    exposed = in_pieces_s(cost, amounts[-1], piece) - windows[-1].idle_s
    return Filling(tuple(amounts), max(0.0, exposed))


def in_pieces_s(cost: Line, nbytes: float, piece: float) -> float:
    """Seconds of an exchange in pieces of at most `piece` bytes; in one if `piece` is 0."""
    if not piece or nbytes <= piece:
        return cost(nbytes)
    num_whole = int(nbytes / piece)
    return num_whole * cost(piece) + cost(nbytes - num_whole * piece)


def _room(window: Window, cost: Line) -> float:
    """Bytes that a window takes for nothing."""
    if cost.s_per_unit == 0:
        return float("inf") if window.idle_s >= cost.alpha_s else 0.0
    return max(0.0, (window.idle_s - cost.alpha_s) / cost.s_per_unit)


def _cheapest(windows: Sequence[Window], cost: Line) -> int:
    """Of the windows by which every gradient exists, the one where it costs least to start."""
    last = max(i for i, window in enumerate(windows) if window.produced > 0)
    return min(range(last, len(windows)), key=lambda i: (-min(windows[i].idle_s, cost.alpha_s), i))
