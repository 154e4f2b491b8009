"""Exact search equals brute force on random small instances of every family; none is worse."""

import zlib

import numpy as np
import pytest

from parallel.planner.exact_shop import best_order
from parallel.planner.shop import Stage, run_order, tasks_of
from parallel.planner.simulate import simulate
from parallel.planner.strategies import schemoe
from tests.parallel.planner.families import FAMILIES
from tests.parallel.planner.oracle import best_makespan, whole

QUICK, ALL = 40, 2_000


def check(name: str, num_instances: int) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for i in range(num_instances):
        outcome = FAMILIES[name](rng)
        assert outcome.ours == outcome.brute, f"instance {i}: {outcome}"
        assert outcome.paper is None or outcome.paper >= outcome.ours, f"instance {i}: {outcome}"


@pytest.mark.parametrize("name", FAMILIES)
def test_equals_brute_force(name):
    check(name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_brute_force_everywhere(name):
    check(name, ALL)


@pytest.mark.slow
def test_three_chunks_of_five_stages():
    """Three chunks have 756,756 orders: one instance."""
    names = ("inter", "intra", "compute", "intra", "inter")
    stages = [Stage(name, name, float(x)) for name, x in zip(names, (3, 2, 4, 1, 3), strict=True)]
    found = best_order(stages, 3)
    assert found.proved and found.seconds == best_makespan(stages, 3)


def test_the_theorem_of_schemoe_has_an_exception():
    """Its order takes 30 s where 29 s do: the two ways have unequal codecs and exchanges."""
    names = "C1", "A1", "D1", "experts", "C2", "A2", "D2"
    resources = "compute", "link", "compute", "compute", "compute", "link", "compute"
    seconds = 3.0, 6.0, 1.0, 1.0, 1.0, 1.0, 6.0
    stages = [Stage(*stage) for stage in zip(names, resources, seconds, strict=True)]
    assert run_order(stages, schemoe.theorem_order(stages, 2)) == 30
    assert best_order(stages, 2).seconds == best_makespan(stages, 2) == 29


def test_the_theorem_of_schemoe_holds_where_both_ways_are_alike():
    names = "C1", "A1", "D1", "experts", "C2", "A2", "D2"
    resources = "compute", "link", "compute", "compute", "compute", "link", "compute"
    rng = np.random.default_rng(4)
    for _ in range(500):
        pack, exchange, unpack, work = (1 + whole(rng) for _ in range(4))
        seconds = pack, exchange, unpack, work, pack, exchange, unpack
        stages = [Stage(*stage) for stage in zip(names, resources, seconds, strict=True)]
        num_chunks = int(rng.integers(2, 4))
        order = schemoe.theorem_order(stages, num_chunks)
        assert run_order(stages, order) == best_order(stages, num_chunks).seconds


def test_a_search_cut_short_says_so():
    rng = np.random.default_rng(0)
    num_open = 0
    for _ in range(200):
        names = ("inter", "intra", "compute", "intra", "inter")
        stages = [Stage(name, name, whole(rng)) for name in names]
        cut, full = best_order(stages, 4, num_labels_max=1), best_order(stages, 4)
        assert cut.bound_s <= full.seconds <= cut.seconds
        num_open += not cut.proved
    assert num_open > 0


def test_an_order_takes_what_the_simulator_says():
    rng = np.random.default_rng(1)
    for _ in range(100):
        resources = [("inter", "intra", "compute")[i] for i in rng.integers(3, size=5)]
        stages = [Stage(f"{i}", name, whole(rng)) for i, name in enumerate(resources)]
        fillers = [Stage("gradient", resources[0], whole(rng))]
        found = best_order(stages, 3, fillers)
        timeline = simulate(tasks_of(stages, found.order, fillers), in_order=True)
        assert timeline.makespan_s == found.seconds == run_order(stages, found.order, fillers)
