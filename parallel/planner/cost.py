"""Seconds by an amount: a line, the highest of several lines, or a line with knots."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, TypeAlias

from pallas_kernels import ArgumentError, FormatError


@dataclass(frozen=True)
class Line:
    """The alpha-beta model: `alpha_s + s_per_unit * amount`; nothing to do takes no time.

    Attributes:
        alpha_s: seconds to start, whatever the amount.
        s_per_unit: seconds for one more byte, operation or token.
    """

    alpha_s: float
    s_per_unit: float

    def __post_init__(self):
        if not (self.alpha_s >= 0 and self.s_per_unit >= 0):
            raise ArgumentError("a line needs alpha_s >= 0 and s_per_unit >= 0", got=self)

    def __call__(self, amount: float) -> float:
        """Seconds of `amount`."""
        return self.alpha_s + self.s_per_unit * amount if amount > 0 else 0.0


@dataclass(frozen=True)
class Roof:
    """The highest of several lines: a kernel waits for whatever it needs most of."""

    lines: tuple[Line, ...]

    def __post_init__(self):
        if not self.lines:
            raise ArgumentError("a roof needs at least one line")

    def __call__(self, amount: float) -> float:
        """Seconds of `amount`."""
        return max(line(amount) for line in self.lines)


@dataclass(frozen=True)
class Knots:
    """A line through measured points; beyond the last it goes on with its last slope.

    Below the first point the first segment goes on, but not below zero seconds.

    Attributes:
        amounts: in rising order, at least two.
        seconds: at each of them.
    """

    amounts: tuple[float, ...]
    seconds: tuple[float, ...]

    def __post_init__(self):
        if len(self.amounts) != len(self.seconds) or len(self.amounts) < 2:
            raise ArgumentError("knots need two points or more", got=self)
        if any(b <= a for a, b in zip(self.amounts, self.amounts[1:], strict=False)):
            raise ArgumentError("the amounts of knots must rise", got=self.amounts)
        if min(self.seconds) < 0:
            raise ArgumentError("the seconds of knots must not be negative", got=self.seconds)

    def __call__(self, amount: float) -> float:
        """Seconds of `amount`."""
        if amount <= 0:
            return 0.0
        i = min(max(bisect_right(self.amounts, amount), 1), len(self.amounts) - 1)
        (x0, x1), (y0, y1) = self.amounts[i - 1 : i + 1], self.seconds[i - 1 : i + 1]
        return max(0.0, y0 + (y1 - y0) * (amount - x0) / (x1 - x0))


Cost: TypeAlias = Line | Roof | Knots


def cost_to_json(cost: Cost) -> dict[str, Any]:
    """A cost as JSON values."""
    if isinstance(cost, Line):
        return {"alpha_s": cost.alpha_s, "s_per_unit": cost.s_per_unit}
    if isinstance(cost, Roof):
        return {"highest_of": [cost_to_json(line) for line in cost.lines]}
    return {"amounts": list(cost.amounts), "seconds": list(cost.seconds)}


def cost_from_json(value: Any) -> Cost:
    """The cost that `cost_to_json` wrote.

    Raises:
        FormatError: it is none, or its figures cannot be meant.
    """
    try:
        keys = set(value)
        if keys == {"alpha_s", "s_per_unit"}:
            return Line(float(value["alpha_s"]), float(value["s_per_unit"]))
        if keys == {"highest_of"}:
            lines = tuple(cost_from_json(line) for line in value["highest_of"])
            if all(isinstance(line, Line) for line in lines):
                return Roof(lines)  # type: ignore[arg-type]
        if keys == {"amounts", "seconds"}:
            return Knots(tuple(map(float, value["amounts"])), tuple(map(float, value["seconds"])))
    except (ArgumentError, TypeError, ValueError) as error:
        raise FormatError("a cost must be a line, a roof or knots", got=str(error)) from error
    raise FormatError(
        "a cost must be {alpha_s, s_per_unit}, {highest_of: lines} or {amounts, seconds}",
        got=str(value)[:100],
    )
