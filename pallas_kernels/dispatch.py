"""Which backend runs an op: an ordered table, and one error that lists every refusal."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pallas_kernels.errors import ArgumentError, UnsupportedError

Implementation = str | Sequence[str] | None


def dispatch(
    op: str,
    backends: Mapping[str, Callable[..., Any]],
    implementation: Implementation,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call the first backend that does not refuse.

    Args:
        op: name of the op, for messages.
        backends: functions by backend name, best first; `"xla"` works everywhere and comes last.
        implementation: one name, names in the order to try, or None for the table's order.
        *args: given to the backend.
        **kwargs: given to the backend.

    Returns:
        what the backend returns.

    Raises:
        ArgumentError: an unknown backend name.
        UnsupportedError: every backend tried refused; each reason is in the message.
    """
    refusals = []
    for name in _order(op, backends, implementation):
        try:
            return backends[name](*args, **kwargs)
        except UnsupportedError as refusal:
            refusals.append((name, refusal))
    if len(refusals) == 1:
        raise refusals[0][1]
    reasons = "; ".join(f"{name}: {str(refusal).rstrip('.')}" for name, refusal in refusals)
    raise UnsupportedError(f"no backend of {op} can do it", got=reasons) from refusals[-1][1]


def _order(
    op: str, backends: Mapping[str, Callable[..., Any]], implementation: Implementation
) -> Sequence[str]:
    if implementation is None:
        return list(backends)
    names = [implementation] if isinstance(implementation, str) else list(implementation)
    for name in names:
        if name not in backends:
            near = difflib.get_close_matches(str(name), backends, n=1)
            raise ArgumentError(
                f"implementation of {op} must be one of {', '.join(backends)}",
                got=repr(name),
                fix=f"did you mean {near[0]!r}?" if near else "",
            )
    if not names:
        raise ArgumentError(f"implementation of {op} must name at least one backend")
    return names
