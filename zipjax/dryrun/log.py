"""Find in the log of a compiling process the line that says why it failed."""

import re

# Where others begin to tell of a failure at length; what failed has said more before.
_EPILOGUES = re.compile(r"Fatal Python error|Traceback \(most recent call last\)")
_SIGNS = ("error", "fatal", "failed", "unavailable", "not_found", "cannot", "abort")
_LENGTH_MAX = 500


def begin(index: int) -> str:
    """The line after which a program's words begin."""
    return f"zipjax: program {index}\n"


def last_words(log: str, index: int | None = None) -> str:
    """The last line that names a failure, else the last line; empty where there is none.

    Args:
        log: what the process wrote; `begin(i)` before program i.
        index: of the program; None for all that was written.
    """
    if index is not None:
        log = log.partition(begin(index))[2].partition(begin(index + 1))[0]
    said = _EPILOGUES.split(log)[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if any(sign in line.lower() for sign in _SIGNS)]
    line = (telling or lines or [""])[-1]
    # MLIR puts where before what, and nests it: loc("kernel"("file.py":75:12)): error: ...
    return line[max(0, line.find("error: ")) :][:_LENGTH_MAX].rstrip(".")
