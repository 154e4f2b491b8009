"""Counts, while a program runs, how often operands did not fit their payload and went raw."""

import contextlib
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial

import jax

from parallel.wire.site import Site

_recorder: ContextVar["Fallbacks | None"] = ContextVar("zip_fallbacks", default=None)


class Fallbacks:
    """What `record_fallbacks` counts, on the devices of this process.

    A count is one leg of one call on one device; a psum has two legs.
    """

    def __init__(self):
        """Start from nothing."""
        self._lock = threading.Lock()
        self._counts: Counter[Site] = Counter()
        self._extra_nbytes: defaultdict[Site, float] = defaultdict(float)

    def counts(self) -> dict[Site, int]:
        """Fallbacks so far by call site, after waiting for what runs."""
        jax.effects_barrier()
        with self._lock:
            return dict(self._counts)

    def extra_nbytes(self) -> float:
        """Bytes sent beyond what the payloads would have been, summed over devices."""
        return sum(self.extra_nbytes_by_site().values())

    def extra_nbytes_by_site(self) -> dict[Site, float]:
        """The same by call site."""
        jax.effects_barrier()
        with self._lock:
            return dict(self._extra_nbytes)

    def _add(self, site: Site, extra_nbytes: float) -> None:
        with self._lock:
            self._counts[site] += 1
            self._extra_nbytes[site] += extra_nbytes


@contextlib.contextmanager
def record_fallbacks() -> Iterator[Fallbacks]:
    """Count the fallbacks of every program that is traced inside this context, whenever it runs.

    A program traced here calls back to the host in its raw branches, and only there. A program
    traced elsewhere has no callback, costs nothing and is not counted, called here or not.
    """
    fallbacks = Fallbacks()
    token = _recorder.set(fallbacks)
    try:
        yield fallbacks
    finally:
        _recorder.reset(token)


def note_fallback(site: Site, extra_nbytes: float) -> None:
    """Count one fallback each time that this place of the traced program is run."""
    fallbacks = _recorder.get()
    if fallbacks is not None:
        jax.debug.callback(partial(fallbacks._add, site, extra_nbytes))
