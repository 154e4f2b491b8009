"""Costs and their fits: known curves come back, outliers do not bend them."""

import numpy as np
import pytest

from pallas_kernels import ArgumentError
from parallel.planner import Knots, Line, Roof, fit_knots, fit_line

SIZES = [2.0**k for k in range(10, 28)]


def noisy(cost, seed, relative=0.02):
    rng = np.random.default_rng(seed)
    return [cost(size) * float(1 + relative * rng.standard_normal()) for size in SIZES]


def test_nothing_to_do_takes_no_time():
    for cost in (Line(1, 2), Roof((Line(1, 2), Line(3, 0))), Knots((1, 2), (1, 3))):
        assert cost(0) == 0
        assert cost(1) > 0


def test_a_roof_is_the_highest_line():
    roof = Roof((Line(1, 2), Line(5, 1)))
    assert [roof(n) for n in (1, 4, 10)] == [6, 9, 21]


def test_knots_go_straight_between_and_beyond():
    knots = Knots((10, 20, 40), (1, 2, 10))
    assert [knots(n) for n in (5, 10, 15, 20, 30, 50)] == [0.5, 1, 1.5, 2, 6, 14]


def test_an_exact_line_comes_back():
    line = Line(3e-5, 2e-10)
    fit = fit_line(SIZES, [line(size) for size in SIZES])
    assert fit.cost.alpha_s == pytest.approx(line.alpha_s, rel=1e-9)
    assert fit.cost.s_per_unit == pytest.approx(line.s_per_unit, rel=1e-9)
    assert fit.outliers == () and fit.r2 == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_line_comes_back_within_its_errors(seed):
    line = Line(3e-5, 2e-10)
    fit = fit_line(SIZES, noisy(line, seed))
    errors = fit.standard_errors
    assert abs(fit.cost.alpha_s - line.alpha_s) < 4 * errors[0]
    assert abs(fit.cost.s_per_unit - line.s_per_unit) < 4 * errors[1]
    assert fit.r2 > 0.99 and max(map(abs, fit.relative_errors)) < 0.15


@pytest.mark.parametrize("seed", range(5))
def test_outliers_are_found_and_left_out(seed):
    line = Line(3e-5, 2e-10)
    seconds = noisy(line, seed, relative=0.005)
    seconds[3] *= 5
    seconds[-1] *= 2
    fit = fit_line(SIZES, seconds)
    assert {3, len(SIZES) - 1} <= set(fit.outliers)
    assert fit.cost.s_per_unit == pytest.approx(line.s_per_unit, rel=0.02)
    assert fit.relative_errors[3] == pytest.approx(0.8, abs=0.02)


def test_neither_figure_is_negative():
    falling = fit_line([1, 2, 3, 4], [4, 3.5, 3, 2.5])
    assert falling.cost.s_per_unit == 0 and 2.5 < falling.cost.alpha_s < 4
    steep = fit_line([10, 20, 30], [1, 12, 23])
    assert steep.cost.alpha_s == 0 and steep.cost.s_per_unit > 0


def test_two_regimes_get_a_knot_and_a_line_gets_none():
    """A protocol that changes at a megabyte, and a straight line: right in nine seeds of ten."""
    change = float(2**20)
    eager = Knots((SIZES[0], change, SIZES[-1]), (1e-5, 1e-3, 0.02))
    bent = [fit_knots(SIZES, noisy(eager, seed, relative=0.01)) for seed in range(10)]
    assert all(change in fit.cost.amounts for fit in bent)
    assert sum(len(fit.cost.amounts) == 3 for fit in bent) >= 9
    assert all(max(map(abs, fit.relative_errors)) < 0.05 for fit in bent)
    line = Line(3e-5, 2e-10)
    straight = [fit_knots(SIZES, noisy(line, seed, relative=0.01)) for seed in range(10)]
    assert sum(len(fit.cost.amounts) == 2 for fit in straight) >= 9


@pytest.mark.parametrize(
    ("amounts", "seconds"),
    [([1], [1]), ([1, 1], [1, 2]), ([1, 2], [1]), ([1, 2], [0, 1]), ([1, 2], [1, float("nan")])],
)
def test_points_that_make_no_line_are_refused(amounts, seconds):
    with pytest.raises(ArgumentError):
        fit_line(amounts, seconds)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Line(-1, 0),
        lambda: Line(0, float("nan")),
        lambda: Roof(()),
        lambda: Knots((1,), (1,)),
        lambda: Knots((2, 1), (1, 1)),
        lambda: Knots((1, 2), (-1, 1)),
        lambda: fit_knots([1, 2, 3], [1, 2, 3], num_segments_max=4),
    ],
)
def test_costs_that_cannot_be_meant_are_refused(make):
    with pytest.raises(ArgumentError):
        make()
