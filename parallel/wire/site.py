"""Which line of whose program made bytes travel, kept as a name that survives tracing."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import FrameType

# Frames of these packages are ours or JAX's; the caller is the first that is not.
_NOT_CALLERS = ("parallel.collectives", "parallel.wire", "jax")
_LABEL = re.compile(r"zip\.(\w+?)(_backward)?\[([^\]]*)\]")


@dataclass(frozen=True)
class Site:
    """A call of a collective.

    Attributes:
        op: name of the collective as called.
        location: "file.py:line" of the caller; empty where unknown.
        backward: whether this is the collective of the gradient.
    """

    op: str
    location: str
    backward: bool = False

    @property
    def label(self) -> str:
        """The name of the scope it is traced under; also what profilers and HLO dumps show."""
        return f"zip.{self.op}{'_backward' if self.backward else ''}[{self.location}]"

    def transposed(self) -> "Site":
        """The collective of the gradient of this one."""
        return replace(self, backward=not self.backward)

    def __str__(self) -> str:
        place = f" at {self.location}" if self.location else ""
        return f"{self.op}{' (backward)' if self.backward else ''}{place}"

    @staticmethod
    def parse(name_stack: str) -> "Site | None":
        """Return the innermost site in a stack of scope names."""
        found = _LABEL.findall(name_stack)
        return Site(found[-1][0], found[-1][2], bool(found[-1][1])) if found else None


def caller_site(op: str) -> Site:
    """Return the site of the innermost frame outside this package and JAX."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "")
        if not any(package == name or package.startswith(name + ".") for name in _NOT_CALLERS):
            return Site(op, f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return Site(op, "")
