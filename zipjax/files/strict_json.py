"""JSON as an index may use it: objects, lists, strings and integers, each key once.

Python's parser forgives what a file format may not: repeated keys (the last one wins), NaN, floats
where counts are meant, and nesting deep enough to exhaust the stack. All of it is refused here, the
nesting by a scan of the bytes before the parser sees them.
"""

import gc
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pallas_kernels import FormatError
from zipjax.files.spec import JSON_DEPTH_MAX, JSON_VALUES_MAX
from zipjax.files.wording import shown

_SCAN_NBYTES = 1 << 20
_ESCAPED = re.compile(rb"\\.", re.DOTALL)


def parse_json(data: bytes, *, what: str, depth_max: int = JSON_DEPTH_MAX) -> dict[str, Any]:
    """Parse one JSON object.

    Args:
        data: UTF-8 without byte-order mark; the first byte is `{`.
        what: the thing parsed, for messages, such as "the index".
        depth_max: deepest nesting of objects and lists.

    Raises:
        FormatError: anything but one object of objects, lists, strings and integers.
    """
    if data[:1] != b"{":
        raise FormatError(f"{what} must start with {{", got=shown(data[:8]))
    _require_flat(data, what=what, depth_max=depth_max)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{what} must be UTF-8", got=f"{error.reason} at byte {error.start}"
        ) from None
    try:
        with _collector_paused():
            return json.loads(
                text,
                object_pairs_hook=lambda pairs: _object(pairs, what),
                parse_float=lambda digits: _refuse(digits, what),
                parse_constant=lambda word: _refuse(word, what),
            )
    except json.JSONDecodeError as error:
        got = f"{error.msg} at character {error.pos}"
        raise FormatError(f"{what} must be JSON", got=got) from None
    except FormatError:
        raise
    except ValueError:  # Python converts no more than some thousands of digits.
        raise FormatError(f"an integer of {what} must fit 64 bits", got="far more digits") from None


def dump_json(value: dict[str, Any]) -> bytes:
    """The bytes of a JSON object, without spaces, keys in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _require_flat(data: bytes, *, what: str, depth_max: int) -> None:
    """Refuse deep nesting and absurd numbers of values, in one vectorised pass over the bytes."""
    # Escapes become two plain bytes, so that every quote left opens or closes a string.
    plain = np.frombuffer(_ESCAPED.sub(b"__", data) if b"\\" in data else data, np.uint8)
    depth, num_quotes, num_values = 0, 0, 0
    for start in range(0, plain.size, _SCAN_NBYTES):
        block = plain[start : start + _SCAN_NBYTES]
        quotes = np.cumsum(block == ord('"'), dtype=np.int32) + num_quotes % 2
        outside = quotes % 2 == 0
        opens = outside & ((block == ord("{")) | (block == ord("[")))
        closes = outside & ((block == ord("}")) | (block == ord("]")))
        depths = np.cumsum(opens.astype(np.int8) - closes, dtype=np.int32) + depth
        if depths.max() > depth_max:
            raise FormatError(f"{what} may nest {depth_max} deep", got=int(depths.max()))
        num_values += int(np.count_nonzero(outside & ((block == ord(",")) | (block == ord(":")))))
        depth, num_quotes = int(depths[-1]), int(quotes[-1])
    if num_values > JSON_VALUES_MAX:
        raise FormatError(f"{what} may hold {JSON_VALUES_MAX} values", got=num_values)


def _object(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) == len(pairs):
        return result
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise FormatError(f"{what} may name a key once", got=f"{shown(key)} twice")
        seen.add(key)
    raise AssertionError("a shorter dict has a repeated key")


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Spare Python's cycle collector the new objects, none of which can be garbage yet.

    It would look at all of them again and again while their number grows: two thirds of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _refuse(word: str, what: str) -> Any:
    raise FormatError(f"a number of {what} must be an integer", got=shown(word))
