"""Plans as JSON text, and back, refusing what is none."""

import dataclasses
import json
import types
import typing
from typing import Any

from pallas_kernels import ArgumentError, FormatError
from parallel.planner.plan import Plan
from parallel.planner.shop import Stage

VERSION = 1


def plan_to_json(plan: Plan) -> str:
    """The text of a plan: every field by its name, stages as [name, resource, seconds]."""
    return json.dumps({"version": VERSION} | dataclasses.asdict(plan)) + "\n"


def plan_from_json(text: str) -> Plan:
    """The plan that `plan_to_json` wrote.

    Raises:
        FormatError: it is none, one of another version, or its figures cannot be meant.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise FormatError("a plan must be JSON", got=str(error)) from None
    if not isinstance(value, dict) or value.get("version") != VERSION:
        got = value.get("version") if isinstance(value, dict) else value
        raise FormatError(f"a plan must have version {VERSION}", got=repr(got)[:100])
    del value["version"]
    try:
        return _read(Plan, value)
    except ArgumentError as error:
        raise FormatError("a plan must describe a schedule", got=str(error)) from error


def _read(kind: Any, value: Any) -> Any:
    """Build what the annotation `kind` says from JSON values."""
    if kind is Stage:
        name, resource, seconds = _checked(value, list, len(value) == 3, "a stage")
        return Stage(_read(str, name), _read(str, resource), _read(float, seconds))
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple(_read(inner[0], entry) for entry in _checked(value, list, True, "a list"))
    if origin is types.UnionType:  # X | None
        return None if value is None else _read(inner[0], value)
    if origin is typing.Literal:
        return _checked(value, str, value in inner, f"one of {', '.join(inner)}")
    if kind is float:
        return float(_checked(value, (int, float), not isinstance(value, bool), "a number"))
    return _checked(value, kind, kind is bool or not isinstance(value, bool), kind.__name__)


def _read_fields(kind: Any, value: Any) -> Any:
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    _checked(value, dict, True, "an object")
    if set(value) != names:
        raise FormatError(
            f"a {kind.__name__} needs exactly the keys {', '.join(sorted(names))}",
            got=", ".join(sorted(set(value) ^ names)),
        )
    return kind(**{name: _read(hints[name], value[name]) for name in value})


def _checked(value: Any, kind: Any, holds: bool, what: str) -> Any:
    if not isinstance(value, kind) or not holds:
        raise FormatError(f"a plan must have {what} there", got=repr(value)[:100])
    return value
