"""Work on tensors by several threads, in the order and within the memory of one."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar


class _Sized(Protocol):
    @property
    def raw_nbytes(self) -> int:
        """Bytes that it takes uncompressed."""
        ...


Item = TypeVar("Item", bound=_Sized)
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Sequence[Item], *, num_threads: int = 1
) -> Iterator[Result]:
    """`function` of each item, in their order, several at once.

    Items are in work, or finished and not yet taken, only as far as they are together no larger
    than the largest of all: so that memory does not grow with the number of threads.

    Args:
        function: releases the interpreter's lock while it works, as NumPy does.
        items: what to work on, with their sizes.
        num_threads: how many at once; 1 uses no threads.
    """
    if num_threads == 1:
        yield from map(function, items)
        return
    budget = max((item.raw_nbytes for item in items), default=0)
    with ThreadPoolExecutor(num_threads) as pool:
        try:
            yield from _within(budget, pool, function, items, 2 * num_threads)
        finally:
            pool.shutdown(cancel_futures=True)


def _within(
    budget: int,
    pool: ThreadPoolExecutor,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    num_pending_max: int,
) -> Iterator[Result]:
    pending: deque[tuple[int, Future[Result]]] = deque()
    held_nbytes = 0
    for item in items:
        while pending and (
            held_nbytes + item.raw_nbytes > budget or len(pending) >= num_pending_max
        ):
            nbytes, future = pending.popleft()
            yield future.result()
            held_nbytes -= nbytes
        pending.append((item.raw_nbytes, pool.submit(function, item)))
        held_nbytes += item.raw_nbytes
    while pending:
        yield pending.popleft()[1].result()
