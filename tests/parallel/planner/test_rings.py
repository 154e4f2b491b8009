"""Rings that feed a product, and parts that are divided over two links."""

import numpy as np
import pytest

from parallel.planner import Line, Task, simulate
from parallel.planner.strategies import compass
from tests.parallel.planner.families import line


def test_a_ring_takes_what_the_simulator_says():
    rng = np.random.default_rng(0)
    for _ in range(200):
        link, product = line(rng), line(rng)
        num_ranks = int(rng.integers(1, 9))
        sent, work = 840.0 * num_ranks, 840.0 * int(rng.integers(1, 4)) * num_ranks
        hop, part = link(840.0), product(work / num_ranks)
        tasks = [Task("own part", "device", part)]
        for i in range(1, num_ranks):
            before = () if i == 1 else (len(tasks) - 2,)
            tasks.append(Task(f"hop {i}", "link", hop, before, i))
            tasks.append(Task(f"product {i}", "device", part, (len(tasks) - 1,), i))
        seconds = compass.ring_s([link], sent, product, work, num_ranks)
        assert seconds == simulate(tasks, in_order=True).makespan_s


def test_a_part_is_divided_so_that_both_links_end_together():
    """No division of a grid is faster, and never is either link alone."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        one, other = line(rng), line(rng)
        nbytes = float(rng.integers(1, 50))
        best = compass.divided_s([one, other], nbytes)
        shares = np.linspace(0, nbytes, 101)
        grid = min(max(one(float(x)), other(float(nbytes - x))) for x in shares)
        assert best <= grid * (1 + 1e-12)
        if best < min(one(nbytes), other(nbytes)):
            x = (other.alpha_s - one.alpha_s + other.s_per_unit * nbytes) / (
                one.s_per_unit + other.s_per_unit
            )
            assert one(x) == pytest.approx(other(nbytes - x), rel=1e-9) == pytest.approx(best)


def test_a_double_ring_of_equal_links_is_up_to_twice_as_fast():
    link, product = Line(0.0, 1.0), Line(0.0, 0.1)
    single = compass.ring_s([link], 800.0, product, 800.0, 8)
    double = compass.ring_s([link, link], 800.0, product, 800.0, 8)
    assert (single, double) == (710.0, 360.0)
