"""Find in the log of a compiling process the line that says why it failed."""

# Stands in the log where the words about the next program begin.
BEGIN = "zipjax: next program"

# Where Python begins to tell of a signal; what died has said more before.
_FAULTHANDLER = "Fatal Python error"

_SIGNS = ("error", "fatal", "failed", "unavailable", "not_found", "cannot", "abort")
_LENGTH_MAX = 500


def last_words(log: str) -> str:
    """The last line about the last program that names a failure, else its last line.

    Args:
        log: what the process wrote; `BEGIN` before each program.
    """
    said = log.rpartition(BEGIN)[2].partition(_FAULTHANDLER)[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if any(sign in line.lower() for sign in _SIGNS)]
    return (telling or lines or [""])[-1][:_LENGTH_MAX].rstrip(".")
