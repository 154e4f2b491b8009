"""Fit costs to measured times: robust against outliers, and honest about what is left over."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from pallas_kernels import ArgumentError
from parallel.planner.cost import Cost, Knots, Line

# A point this many robust standard deviations off is left out (Iglewicz and Hoaglin, 1993).
_OUTLIER_DEVIATIONS = 3.5
_SIGMA_PER_MAD = 1.4826
# Below this relative error nothing is an outlier: clocks and rounding do that.
_ERROR_FLOOR = 1e-3


@dataclass(frozen=True)
class Fit:
    """A cost and how well it stands.

    Attributes:
        cost: what was fitted.
        r2: share of the variance of the seconds that it explains, outliers left out.
        relative_errors: (measured - fitted) / measured of every point, outliers too.
        outliers: indices of the points left out.
        standard_errors: of alpha_s and s_per_unit for a line; of the seconds at the knots else.
    """

    cost: Cost
    r2: float
    relative_errors: tuple[float, ...]
    outliers: tuple[int, ...]
    standard_errors: tuple[float, ...]


def fit_line(amounts: Sequence[float], seconds: Sequence[float]) -> Fit:
    """Fit `alpha + beta * amount` by least squares of the relative errors.

    A first line through the medians of all pairs (Theil and Sen) stands however wrong a quarter of
    the points is; what lies far from it is left out of the least squares. Neither alpha nor beta is
    negative in the result.

    Args:
        amounts: of each measurement, above zero; at least two different ones.
        seconds: of each measurement, above zero.

    Raises:
        ArgumentError: too few points, or values that are not above zero.
    """
    x, y = _checked(amounts, seconds)
    keep = _near(x, y, _median_line(x, y))
    design = np.stack([np.ones_like(x), x], axis=1)
    (alpha, beta), errors = _relative_least_squares(design, y, keep)
    if alpha < 0:
        alpha, beta = 0.0, float(np.mean(y[keep] / x[keep]))
    if beta < 0:
        alpha, beta = float(1 / np.mean(1 / y[keep])), 0.0
    line = Line(float(alpha), float(beta))
    return _fit(line, x, y, keep, errors)


def fit_knots(
    amounts: Sequence[float], seconds: Sequence[float], *, num_segments_max: int = 3
) -> Fit:
    """Fit a continuous line with knots, as many segments as the points justify.

    Every choice of inner knots among the measured amounts is tried; the number of segments is
    that of the least modified Bayesian information criterion, so that a straight line stays one.

    Args:
        amounts: of each measurement, above zero; at least three different ones.
        seconds: of each measurement, above zero.
        num_segments_max: at most so many segments, 1 to 3.

    Raises:
        ArgumentError: too few points, or values that are not above zero.
    """
    x, y = _checked(amounts, seconds)
    if not 1 <= num_segments_max <= 3:
        raise ArgumentError("num_segments_max must be 1, 2 or 3", got=num_segments_max)
    places = np.unique(x)
    best: tuple[float, tuple[float, ...]] = (np.inf, ())
    for num_inner in range(min(num_segments_max, places.size - 1)):
        for inner in combinations(places[1:-1], num_inner):
            knots = (places[0], *inner, places[-1])
            design = _hats(x, knots)
            values, _ = _relative_least_squares(design, y, np.ones(x.size, bool))
            error = float(np.sum(((y - design @ values) / y) ** 2)) + x.size * _ERROR_FLOOR**2
            # A knot that is chosen among many costs three figures (Zhang and Siegmund, 2007).
            num_figures = 2 + 3 * num_inner
            score = x.size * np.log(error / x.size) + num_figures * np.log(x.size)
            best = min(best, (score, knots))
    knots = best[1]
    design, everything = _hats(x, knots), np.ones(x.size, bool)
    values, errors = _relative_least_squares(design, y, everything)
    cost = Knots(tuple(map(float, knots)), tuple(float(max(v, 0.0)) for v in values))
    return _fit(cost, x, y, everything, errors)


def _checked(amounts: Sequence[float], seconds: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(amounts, np.float64), np.asarray(seconds, np.float64)
    if x.ndim != 1 or x.shape != y.shape or np.unique(x).size < 2:
        raise ArgumentError(
            "a fit needs as many seconds as amounts, and two different amounts",
            got=f"{x.size} amounts and {y.size} seconds",
        )
    if not (np.all(x > 0) and np.all(y > 0) and np.all(np.isfinite(x + y))):
        raise ArgumentError("amounts and seconds must be finite and above zero")
    return x, y


def _median_line(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fitted seconds of the line by Theil and Sen."""
    i, j = np.triu_indices(x.size, 1)
    apart = x[i] != x[j]
    i, j = i[apart], j[apart]
    slope = np.median((y[j] - y[i]) / (x[j] - x[i]))
    return slope * x + np.median(y - slope * x)


def _near(x: np.ndarray, y: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Which points are no outliers, by their relative errors."""
    errors = (y - fitted) / y
    spread = max(
        _SIGMA_PER_MAD * float(np.median(np.abs(errors - np.median(errors)))), _ERROR_FLOOR
    )
    keep = np.abs(errors - np.median(errors)) <= _OUTLIER_DEVIATIONS * spread
    return keep if np.unique(x[keep]).size >= 2 else np.ones(x.size, bool)


def _relative_least_squares(
    design: np.ndarray, y: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients that minimise the squares of the relative errors, and their standard errors."""
    # Columns are scaled to be alike: bytes and ones differ by nine orders.
    weighted = design[keep] / y[keep, None]
    scale = np.linalg.norm(weighted, axis=0)
    scale[scale == 0] = 1.0
    ones = np.ones(int(keep.sum()))
    solution, *_ = np.linalg.lstsq(weighted / scale, ones, rcond=None)
    left = ones - weighted / scale @ solution
    freedom = max(int(keep.sum()) - design.shape[1], 1)
    covariance = np.linalg.pinv((weighted / scale).T @ (weighted / scale))
    errors = np.sqrt(np.clip(np.diag(covariance), 0, None) * (left @ left) / freedom)
    return solution / scale, errors / scale


def _hats(x: np.ndarray, knots: Sequence[float]) -> np.ndarray:
    """One column for each knot: 1 there, 0 at the others, straight between."""
    return np.stack([np.interp(x, knots, row) for row in np.eye(len(knots))], axis=1)


def _fit(cost: Cost, x: np.ndarray, y: np.ndarray, keep: np.ndarray, errors: np.ndarray) -> Fit:
    fitted = np.array([cost(float(amount)) for amount in x])
    spread = float(np.sum((y[keep] - y[keep].mean()) ** 2))
    left = float(np.sum((y[keep] - fitted[keep]) ** 2))
    return Fit(
        cost=cost,
        r2=1 - left / spread if spread else 1.0,
        relative_errors=tuple(float(e) for e in (y - fitted) / y),
        outliers=tuple(int(i) for i in np.flatnonzero(~keep)),
        standard_errors=tuple(float(e) for e in errors),
    )
