"""Rules that say which layers are compressed: regular expressions on their paths, in order."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from pallas_kernels import ArgumentError

Action = Literal["triple_bitmap", "leave"]
DEFAULT_ACTION: Action = "triple_bitmap"


class Rule(NamedTuple):
    """One rule.

    Attributes:
        pattern: matches the whole path of a layer ("layers.3.mlp.up") or of a parameter
            ("layers.3.mlp.up.kernel").
        action: codec to compress with, or "leave".
    """

    pattern: re.Pattern[str]
    action: Action


def parse_rules(rules: Mapping[str, str] | None) -> tuple[Rule, ...]:
    """Check rules as a person writes them.

    Raises:
        ArgumentError: a pattern is no regular expression, or an action is unknown.
    """
    if not isinstance(rules, Mapping | None):
        raise ArgumentError(
            "rules must be a mapping from pattern to action",
            got=type(rules).__name__,
            fix='write rules={"lm_head": "leave", ".*": "triple_bitmap"}',
        )
    return tuple(_parse_rule(pattern, action) for pattern, action in (rules or {}).items())


def find_rule(rules: tuple[Rule, ...], layer: str, parameter: str) -> Rule | None:
    """The first rule that matches the path of a layer or of its parameter."""
    for rule in rules:
        if rule.pattern.fullmatch(layer) or rule.pattern.fullmatch(parameter):
            return rule
    return None


def require_all_used(rules: tuple[Rule, ...], paths: Iterable[str]) -> None:
    """Refuse a rule that matches nothing: it is a misspelt path, and would be silently without use.

    Args:
        rules: parsed.
        paths: of all layers and parameters there are.
    """
    paths = list(paths)
    for rule in rules:
        if any(rule.pattern.fullmatch(path) for path in paths):
            continue
        close = difflib.get_close_matches(rule.pattern.pattern, paths, n=1, cutoff=0)
        raise ArgumentError(
            "every rule must match the whole path of a layer or parameter",
            got=repr(rule.pattern.pattern),
            fix=f"paths look like {close[0]!r}" if close else "this model has no parameters",
        )


def _parse_rule(pattern: str, action: str) -> Rule:
    if action not in get_args(Action):
        raise ArgumentError(
            f"the action of rule {pattern!r} must be one of {', '.join(get_args(Action))}",
            got=repr(action),
        )
    try:
        return Rule(re.compile(pattern), action)  # type: ignore[arg-type]
    except re.error as error:
        raise ArgumentError(
            "a rule must be a regular expression", got=f"{pattern!r}: {error}"
        ) from (error)
