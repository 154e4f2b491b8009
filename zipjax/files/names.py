"""What a tensor may be called."""

import re
import unicodedata
from collections.abc import Iterable

from pallas_kernels import FormatError
from zipjax.files.spec import NAME_NBYTES_MAX
from zipjax.files.wording import shown

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")
_SEPARATORS = re.compile(r"[/\\]")
_UNPRINTABLE = frozenset(("Cc", "Cs", "Zl", "Zp"))


def check_name(name: str) -> None:
    """Refuse a tensor name that cannot be meant.

    Names never become paths here, but they do in other people's tools: what would leave a folder
    is refused as well.

    Raises:
        FormatError: empty, over-long, with control characters, absolute, or with a `..` part.
    """
    if not name:
        raise FormatError("a tensor's name may not be empty")
    if any(unicodedata.category(character) in _UNPRINTABLE for character in name):
        raise FormatError("a tensor's name may hold no control characters", got=shown(name))
    nbytes = len(name.encode("utf-8"))
    if nbytes > NAME_NBYTES_MAX:
        raise FormatError(
            f"a tensor's name may take {NAME_NBYTES_MAX} bytes", got=f"{nbytes}: {shown(name)}"
        )
    if _ABSOLUTE.match(name) or ".." in _SEPARATORS.split(name):
        raise FormatError(
            "a tensor's name may be no path out of its folder", got=shown(name), fix="rename it"
        )


def check_names(names: Iterable[str]) -> None:
    """Refuse names that are bad, repeated, or the same text in two Unicode spellings.

    Names that differ by case are different names: models have both `w` and `W`.

    Raises:
        FormatError: naming the culprits.
    """
    first_by_normal: dict[str, str] = {}
    for name in names:
        check_name(name)
        normal = unicodedata.normalize("NFC", name)
        if normal in first_by_normal:
            first = first_by_normal[normal]
            spelling = "twice" if first == name else f"and {shown(first)}, the same text respelt"
            raise FormatError("tensors must have different names", got=f"{shown(name)} {spelling}")
        first_by_normal[normal] = name
