"""Every exception the house raises on purpose: what must hold, what was got, what to do."""


class ZipError(Exception):
    """Something a person can act on.

    Attributes:
        what: what must hold, or what went wrong, in one sentence without a full stop.
        got: what was there instead; empty when there is nothing to show.
        fix: what to do about it; empty when nothing can be done.
    """

    def __init__(self, what: str, *, got: object = "", fix: str = ""):
        """Keep the three parts; `str()` renders them the same everywhere."""
        super().__init__(what)
        self.what = what
        self.got = str(got)
        self.fix = fix

    def __str__(self) -> str:
        parts = [self.what]
        if self.got:
            parts.append(f"got {self.got}")
        if self.fix:
            parts.append(self.fix)
        text = "; ".join(parts)
        return text if text.endswith("?") else text + "."

    def __reduce__(self):
        return (_rebuild, (type(self), self.what, self.got, self.fix))


class ArgumentError(ZipError, ValueError):
    """A caller passed something that cannot be meant."""


class FormatError(ZipError, ValueError):
    """Stored data is not what its format says: foreign, truncated, newer, or inconsistent."""


class ChecksumError(FormatError):
    """Stored data does not match its checksum: it was damaged after it was written."""


class UnsupportedError(ZipError, NotImplementedError):
    """This backend or version cannot do it, and says why; dispatch goes on to the next one."""


def _rebuild(cls: type[ZipError], what: str, got: str, fix: str) -> ZipError:
    """Unpickle across processes, where keyword-only arguments would be lost."""
    return cls(what, got=got, fix=fix)
