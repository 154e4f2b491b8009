"""One random small instance of each family: the exact search against brute force, and the paper's.

Seconds and amounts are whole numbers that every degree divides, so that sums are exact and results
are compared for equality. `benchmarks/planner.py` counts the same instances.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from parallel.planner.block import block_of
from parallel.planner.cost import Line
from parallel.planner.exact_shop import best_order
from parallel.planner.shop import Stage, run_order, stage_major
from parallel.planner.step import Work, stages_of
from parallel.planner.strategies import (
    compass,
    contention,
    dreamddp,
    findep,
    fsmoe,
    hiermoe,
    parm,
    pipemoe,
    schemoe,
)
from parallel.planner.two_chains import best_of_two
from parallel.planner.windows import Window, exposed_s, fill, greedy_fill
from tests.parallel.planner import oracle
from tests.parallel.planner.oracle import best_makespan, whole


class Outcome(NamedTuple):
    """What an instance gave.

    Attributes:
        ours: seconds of the exact search.
        brute: seconds of the best of everything there is.
        paper: seconds of what the published rule gives; None where it is the same search.
    """

    ours: float
    brute: float
    paper: float | None = None


def line(rng: np.random.Generator) -> Line:
    return Line(float(rng.integers(0, 9)), float(rng.integers(0, 5)))


def amount(rng: np.random.Generator, degree_max: int) -> float:
    """Something that every degree up to `degree_max` divides."""
    return float(np.lcm.reduce(np.arange(1, degree_max + 1)) * rng.integers(1, 5))


def pipemoe_orders(rng: np.random.Generator) -> Outcome:
    """Degree by closed form, against every order of every degree."""
    link, expert = line(rng), line(rng)
    sent, work = amount(rng, 3), amount(rng, 3)
    degree = pipemoe.best_degree(link, sent, expert, work, degree_max=3)

    def chain(r: int) -> list[Stage]:
        d, e = link(sent / r), expert(work / r)
        return [Stage("d", "link", d), Stage("e", "device", e), Stage("c", "link", d)]

    brute = min(best_makespan(chain(r), r) for r in (1, 2, 3))
    return Outcome(pipemoe.pipeline_s(link, sent, expert, work, degree), brute)


def pipemoe_degrees(rng: np.random.Generator) -> Outcome:
    """Degree by closed form, against the schedule of every degree up to 24; the paper rounds."""
    link, expert = line(rng), line(rng)
    sent, work = amount(rng, 24), amount(rng, 24)
    # Starting times as large as a chunk, or the highest degree would always win.
    scale = amount(rng, 24) / 24
    link, expert = (Line(x.alpha_s * scale, x.s_per_unit) for x in (link, expert))
    degree = pipemoe.best_degree(link, sent, expert, work, degree_max=24)

    def seconds(r: int) -> float:
        d, e = link(sent / r), expert(work / r)
        chain = [Stage("d", "link", d), Stage("e", "device", e), Stage("c", "link", d)]
        return run_order(chain, stage_major(3, r))

    paper = min(pipemoe.paper_degree(link, sent, expert, work), 24)
    brute = min(seconds(r) for r in range(1, 25))
    return Outcome(pipemoe.pipeline_s(link, sent, expert, work, degree), brute, seconds(paper))


def fsmoe_orders(rng: np.random.Generator) -> Outcome:
    """Degree and order on two links with a gradient's exchange, against every order."""
    names = ("dispatch", "inter"), ("gather", "intra"), ("experts", "compute")
    names += ("scatter", "intra"), ("combine", "inter")
    works = [Work(name, resource, line(rng), amount(rng, 2)) for name, resource in names]
    works[4] = works[0]._replace(name="combine")
    gradient = whole(rng) if rng.random() < 0.5 else 0.0
    fillers = [Stage("gradient", "inter", gradient)] if gradient else []
    ours = {r: best_order(stages_of(works, r), r, fillers) for r in (1, 2)}
    assert all(found.proved for found in ours.values())
    brute = min(best_makespan(stages_of(works, r), r, fillers) for r in (1, 2))
    degree = fsmoe.best_degree(works, (1, 2), gradient)
    stages = stages_of(works, degree)
    order = stage_major(len(stages), degree)
    if gradient:
        order = (*order[:degree], len(stages), *order[degree:])
    paper = run_order(stages, order, fillers)
    return Outcome(min(found.seconds for found in ours.values()), brute, paper)


def fsmoe_exchange(rng: np.random.Generator) -> Outcome:
    """The two orders that a plan carries, with an exchange where it belongs, against all."""
    resources = "inter", "intra", "compute", "intra", "inter"
    stages = [Stage(name, name, 1 + whole(rng)) for name in resources]
    num_chunks = int(rng.integers(1, 3))
    exchange = Stage("gradient", "inter", whole(rng, 30))
    orders = stage_major(5, num_chunks), best_order(stages, num_chunks).order
    blocks = [block_of(stages, num_chunks, order) for order in orders]
    seconds = [b.seconds + max(0.0, exchange.seconds - b.idle_s) for b in blocks]
    longer = [(*b.order[: b.place], 5, *b.order[b.place :]) for b in blocks]
    assert seconds == [run_order(stages, order, [exchange]) for order in longer]
    return Outcome(min(seconds), best_makespan(stages, num_chunks, [exchange]), seconds[0])


def schemoe_orders(rng: np.random.Generator) -> Outcome:
    """The order of two chunks of seven stages, against every order, and against theorem 1."""
    resources = "compute", "link", "compute", "compute", "compute", "link", "compute"
    names = "C1", "A1", "D1", "experts", "C2", "A2", "D2"
    stages = [
        Stage(name, resource, whole(rng)) for name, resource in zip(names, resources, strict=True)
    ]
    found = best_order(stages, 2)
    assert found.proved and run_order(stages, found.order) == found.seconds
    paper = run_order(stages, schemoe.theorem_order(stages, 2))
    return Outcome(found.seconds, best_makespan(stages, 2), paper)


def parm_choice(rng: np.random.Generator) -> Outcome:
    """S1 or S2 by formula, against every order of their parts."""
    exchange, gather = line(rng), line(rng)
    num_parts = int(rng.integers(1, 5))
    sent, tokens = amount(rng, 4), amount(rng, 4)
    copies = tokens * float(rng.integers(1, 4))
    saa = parm.exchange_and_gather_s(exchange, sent, gather, copies, num_parts)
    s1 = exchange(sent) + gather(tokens)
    parts = [
        Stage("exchange", "inter", exchange(sent / num_parts)),
        Stage("gather", "intra", gather(copies / num_parts)),
    ]
    in_one = [Stage("exchange", "inter", exchange(sent)), Stage("gather", "intra", gather(tokens))]
    brute = min(best_makespan(parts, num_parts), best_makespan(in_one, 1))
    return Outcome(min(saa, s1), brute)


def mast_orders(rng: np.random.Generator) -> Outcome:
    """Two halves through chains of up to six stages, against every order."""
    resources = ("compute", "inter", "intra")[: rng.integers(1, 4)]
    stages = [
        Stage(f"{i}", resources[rng.integers(len(resources))], 1 + whole(rng))
        for i in range(rng.integers(1, 7))
    ]
    found = best_of_two(stages)
    assert run_order(stages, found.order) <= found.seconds
    return Outcome(found.seconds, best_makespan(stages, 2))


def contention_splits(rng: np.random.Generator) -> Outcome:
    """Pieces and the one held back, against a formula for each choice written another way."""
    pair = contention.Pair(
        product_s=amount(rng, 4),
        launch_s=float(rng.integers(0, 4)),
        collective_s=2 * whole(rng, 20),
        ready_s=whole(rng, 40),
        factor=2.0,
    )
    best = contention.best_split(pair, num_pieces_max=4)
    choices = [(num, held) for num in range(1, 5) for held in range(num + 1)]
    brute = min(oracle.split_s(pair, num, held) for num, held in choices)
    return Outcome(best.seconds, brute, oracle.split_s(pair, 1, 1))


def compass_degrees(rng: np.random.Generator) -> Outcome:
    """Degree by closed form, against every order of every degree."""
    link, product_cost = line(rng), line(rng)
    sent, work = amount(rng, 4), amount(rng, 4)
    degree = compass.best_degree(link, sent, product_cost, work, degree_max=4)

    def chain(r: int) -> list[Stage]:
        return [
            Stage("c", "link", link(sent / r)),
            Stage("g", "device", product_cost(work / r)),
        ]

    brute = min(best_makespan(chain(r), r) for r in range(1, 5))
    return Outcome(compass.decomposed_s(link, sent, product_cost, work, degree), brute)


def findep_depths(rng: np.random.Generator) -> Outcome:
    """Depth and sequencing by recurrence, against the simulator; the paper has a formula."""
    num_layers = int(rng.integers(1, 4))
    costs = [line(rng) for _ in range(4)]
    sizes = [amount(rng, 4) * 3 for _ in range(4)]

    def times(depth: findep.Depth) -> findep.Times:
        num_parts = depth.num_micro * depth.num_parts
        pieces = (depth.num_micro, depth.num_micro, num_parts, num_parts)
        seconds = (c(n / k) for c, n, k in zip(costs, sizes, pieces, strict=True))
        return findep.Times(*seconds)

    choices = findep.depths(3, 4)
    ours = {depth: findep.pipeline_s(times(depth), depth, num_layers) for depth in choices}
    brute = min(oracle.findep_s(times(depth), depth, num_layers) for depth in choices)
    picked = min(choices, key=lambda depth: findep.paper_s(times(depth), depth, num_layers))
    return Outcome(min(ours.values()), brute, ours[picked])


def dreamddp_runs(rng: np.random.Generator) -> Outcome:
    """Runs of neighbours, against all of them; the paper branches."""
    layers, period = _layers(rng)
    brute = min(
        sum(dreamddp.wait_s(layers, run) for run in runs)
        for runs in oracle.every_run(len(layers.ready_s), period)
    )
    found = dreamddp.best_runs(layers, period)
    assert sum(dreamddp.wait_s(layers, run) for run in found.steps) == found.wait_s
    paper = dreamddp.paper_runs(layers, period)
    assert sum(dreamddp.wait_s(layers, run) for run in paper.steps) == paper.wait_s
    return Outcome(found.wait_s, brute, paper.wait_s)


def dreamddp_divisions(rng: np.random.Generator) -> Outcome:
    """Any division of layers, against all of them; the paper's are runs of neighbours."""
    layers, period = _layers(rng)
    num = len(layers.ready_s)
    brute = min(
        sum(
            dreamddp.wait_s(layers, [i for i in range(num) if slots[i] == h]) for h in range(period)
        )
        for slots in product(range(period), repeat=num)
    )
    found = dreamddp.best_division(layers, period)
    assert found is not None
    assert sorted(i for step in found.steps for i in step) == list(range(num))
    assert sum(dreamddp.wait_s(layers, step) for step in found.steps) == found.wait_s
    return Outcome(found.wait_s, brute, dreamddp.best_runs(layers, period).wait_s)


def hiermoe_levels(rng: np.random.Generator) -> Outcome:
    """Number of levels by formula, against counting the tokens of a random routing."""
    group_sizes = [2, 4, 8]
    routing = np.stack([rng.permutation(16)[:3] for _ in range(rng.integers(1, 9))])
    flat, inter, intra = line(rng), [line(rng), line(rng)], [line(rng), line(rng)]
    nbytes = [float(n) for n in oracle.fullest_groups(routing, group_sizes, num_experts=16)]
    sizes = {"group_sizes": group_sizes, "nbytes": nbytes}
    costs = {"flat": flat, "inter": inter, "intra": intra}
    num_levels = hiermoe.best_num_levels(**sizes, **costs)
    ours = hiermoe.exchange_s(num_levels=num_levels, **sizes, **costs)
    return Outcome(ours, min(oracle.hierarchical_s(nbytes, flat, inter, intra)))


def gradient_windows(rng: np.random.Generator) -> Outcome:
    """Bytes of gradients in windows, against every division into whole bytes; Lina has pieces."""
    cost = line(rng)
    windows = []
    for _ in range(rng.integers(1, 6)):
        # Either room for a whole number of bytes, or less than it takes to start.
        idle = cost(float(rng.integers(1, 5)))
        if rng.random() < 0.3:
            idle = float(rng.integers(0, int(cost.alpha_s) + 1))
        windows.append(Window(idle, float(rng.integers(0, 4))))
    found = fill(windows, cost)
    assert exposed_s(windows, cost, found.amounts) == found.exposed_s
    assert sum(found.amounts) == sum(window.produced for window in windows)
    paper = greedy_fill(windows, cost, 2.0).exposed_s
    return Outcome(found.exposed_s, oracle.least_exposed_s(windows, cost), paper)


def _layers(rng: np.random.Generator) -> tuple[dreamddp.Layers, int]:
    num = int(rng.integers(1, 7))
    exchange = [whole(rng) for _ in range(num)]
    if rng.random() < 0.3:
        return dreamddp.behind_everything(whole(rng, 30), exchange), int(rng.integers(1, 4))
    return dreamddp.behind_backward([whole(rng) for _ in range(num)], exchange), int(
        rng.integers(1, 4)
    )


FAMILIES: dict[str, Callable[[np.random.Generator], Outcome]] = {
    "PipeMoE: orders": pipemoe_orders,
    "PipeMoE: degrees": pipemoe_degrees,
    "FSMoE: degrees and orders": fsmoe_orders,
    "FSMoE: an exchange beside a layer": fsmoe_exchange,
    "FSMoE: gradients in windows": gradient_windows,
    "ScheMoE: orders": schemoe_orders,
    "Parm: S1 or S2": parm_choice,
    "Mast: two halves": mast_orders,
    "contention-aware: splits": contention_splits,
    "Compass: degrees": compass_degrees,
    "FinDEP: depths": findep_depths,
    "DreamDDP: runs": dreamddp_runs,
    "DreamDDP: divisions": dreamddp_divisions,
    "HierMoE: levels": hiermoe_levels,
}
