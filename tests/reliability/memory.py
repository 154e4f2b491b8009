"""Row 7, second half: hostile sizes are refused before anything is allocated for them."""

import tracemalloc
from pathlib import Path

from tests.reliability.forgeries import hostile_sizes
from tests.reliability.tally import Tally, read_contents

GROWTH_NBYTES_MAX = 16 << 20


def refused_before_allocation() -> Tally:
    """Read every file of row 7; neither Python's heap nor the process may grow by 16 MiB."""
    tally = Tally(7, "hostile sizes: memory stays")
    forgeries = list(hostile_sizes())
    for what, data in forgeries:  # Whatever is loaded at first use is loaded now.
        tally.attempt(lambda data=data: read_contents(data) is None, what)
    before_nbytes = _reset_peak()
    tracemalloc.start()
    for what, data in forgeries:
        tally.attempt(lambda data=data: read_contents(data) is None, what)
    _, heap_nbytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    growth_nbytes = _peak() - before_nbytes
    for name, nbytes in (("heap", heap_nbytes), ("process", growth_nbytes)):
        if nbytes >= GROWTH_NBYTES_MAX:
            tally.wrong.append(f"the {name} grew by {nbytes:,} bytes")
    return tally.done()


def _reset_peak() -> int:
    """Start a new measurement of the peak and give the memory used now; Linux only, else 0."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return 0
    return _status("VmRSS")


def _peak() -> int:
    try:
        return _status("VmHWM")
    except OSError:
        return 0


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    raise OSError(f"no {key} in /proc/self/status")
