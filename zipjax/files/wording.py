"""How names from files appear in messages: short, printable, and with a guess at what was meant."""

import difflib
from collections.abc import Iterable

_SHOWN_CHARS_MAX = 80


def shown(value: object) -> str:
    """`value` in quotes for a message: ASCII and short whatever a hostile file holds."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[: _SHOWN_CHARS_MAX - 3]}..."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A suggestion such as "did you mean 'wte'?"; empty when no name is near."""
    nearest = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {shown(nearest[0])}?" if nearest else ""
