"""Plans: never slower than any strategy, true to the simulator, the same twice, and readable."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pallas_kernels import ArgumentError, FormatError, UnsupportedError
from parallel.planner import (
    MACHINES,
    STRATEGIES,
    Contention,
    Knots,
    Link,
    Problem,
    Variant,
    Workload,
    plan,
    plan_from_json,
    plan_to_json,
    timeline_of,
)
from parallel.planner.strategies.combined import GAP

WORKLOAD = Workload(
    num_layers=4,
    num_tokens=4096,
    seq_len=2048,
    width=2048,
    num_heads=32,
    num_kv_heads=8,
    head_dim=128,
    num_experts=64,
    num_selected=6,
    expert_hidden=1408,
    num_inter=8,
    num_intra=8,
)
LAYOUTS = ("everywhere", "sharded", "replicated")


def random_workload(rng, layout, mode):
    return replace(
        WORKLOAD,
        layout=layout,
        mode=mode,
        num_layers=int(rng.integers(1, 5)),
        num_tokens=int(2 ** rng.integers(0, 14)),
        width=int(2 ** rng.integers(8, 13)),
        num_selected=int(rng.integers(1, 9)),
        num_inter=int(2 ** rng.integers(0, 4)),
    )


@pytest.mark.parametrize("mode", ["train", "forward"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MACHINES)
def test_every_candidate_takes_what_the_simulator_says(name, layout, mode):
    """The predicted time of each strategy is the makespan of its task graph, gradients included."""
    rng = np.random.default_rng(len(name) + len(layout))
    for factor in (1.0, 1.3):
        contention = (Contention("compute", "inter", factor),) if factor > 1 else ()
        machine = replace(MACHINES[name], contention=contention)
        problem = Problem(random_workload(rng, layout, mode), machine)
        names = set()
        for strategy, propose in STRATEGIES.items():
            candidate = propose(problem)
            if candidate is None:
                continue
            names.add(strategy)
            simulated = timeline_of(problem, candidate).makespan_s
            assert candidate.seconds == pytest.approx(simulated, rel=1e-12), strategy
        assert {"sequential", "tutel", "pipemoe", "fsmoe", "schemoe", "combined"} <= names


@pytest.mark.parametrize("mode", ["train", "forward"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MACHINES)
def test_never_slower_than_any_strategy(name, layout, mode):
    rng = np.random.default_rng(len(name) * len(mode))
    workload = random_workload(rng, layout, mode)
    found = plan(workload, MACHINES[name])
    problem = Problem(workload, MACHINES[name])
    candidates = [propose(problem) for propose in STRATEGIES.values()]
    seconds = [candidate.seconds for candidate in candidates if candidate is not None]
    assert found.seconds == min(seconds)
    assert [line.seconds for line in found.considered] == sorted(seconds)
    # Only devices of their own for the experts may beat the bound, or the combined schedule.
    shared = [c for c in candidates if c is not None and c.disaggregated is None]
    assert found.bound_s <= min(c.seconds for c in shared) * (1 + 1e-12)
    (combined,) = [c.seconds for c in shared if c.strategy == "combined"]
    assert combined <= min(c.seconds for c in shared) * (1 + GAP)


def test_gradients_are_all_exchanged():
    for layout in LAYOUTS:
        workload = replace(WORKLOAD, layout=layout)
        share = workload.num_intra if layout == "replicated" else 1
        want = workload.num_layers * workload.dense_gradient_nbytes / share
        problem = Problem(workload, MACHINES["fsmoe-b"])
        for propose in STRATEGIES.values():
            candidate = propose(problem)
            if candidate is not None:
                assert sum(candidate.gradients) == pytest.approx(want, rel=1e-12)


def test_the_same_plan_twice():
    assert plan(WORKLOAD, MACHINES["h200"]) == plan(WORKLOAD, MACHINES["h200"])


def test_more_degrees_are_never_slower():
    machine = MACHINES["fsmoe-b"]
    seconds = [plan(WORKLOAD, machine, num_chunks_max=n).seconds for n in (1, 2, 4, 16)]
    assert seconds == sorted(seconds, reverse=True) and seconds[-1] < seconds[0]


@pytest.mark.parametrize("mode", ["train", "forward"])
@pytest.mark.parametrize("name", MACHINES)
def test_a_plan_comes_back_from_json(name, mode):
    found = plan(replace(WORKLOAD, mode=mode), MACHINES[name])
    assert plan_from_json(plan_to_json(found)) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(version=0), "version 1"),
        (lambda v: v.pop("chosen"), "chosen"),
        (lambda v: v.update(colour="red"), "colour"),
        (lambda v: v["chosen"].update(seconds="1"), "a number"),
        (lambda v: v["chosen"].update(seconds=True), "a number"),
        (lambda v: v["workload"].update(layout="upside down"), "everywhere"),
        (lambda v: v["workload"].update(num_layers=0), "num_layers"),
        (lambda v: v["workload"].update(num_layers=1.5), "int"),
        (lambda v: v["chosen"].update(gradients=3), "a list"),
        (lambda v: v.update(chosen=None), "an object"),
    ],
)
def test_what_is_no_plan_is_refused(change, message):
    value = json.loads(plan_to_json(plan(WORKLOAD, MACHINES["h200"])))
    change(value)
    with pytest.raises(FormatError, match=message):
        plan_from_json(json.dumps(value))


def test_explain_names_every_candidate_and_the_choice():
    found = plan(WORKLOAD, MACHINES["h200"])
    text = found.explain()
    for line in found.considered:
        assert line.strategy in text and f"{line.seconds * 1e3:.3f}" in text
    assert f"\nChosen: {found.chosen.strategy}" in text
    assert f"{found.bound_s * 1e3:.3f} ms" in text.splitlines()[-1]


def test_a_step_bound_by_its_link_comes_close_to_the_bound():
    """48 layers of Qwen3-30B-A3B on 64 H200: the link is never idle but at the ends.

    What is missing are the starting times of two halves instead of one.
    """
    workload = replace(
        WORKLOAD,
        num_layers=48,
        num_tokens=8192,
        seq_len=4096,
        num_kv_heads=4,
        num_experts=128,
        num_selected=8,
        expert_hidden=768,
    )
    found = plan(workload, MACHINES["h200"])
    assert found.bound_s > 0.95 * found.seconds


def test_compression_is_chosen_where_the_link_is_slow_and_the_codec_fast():
    machine = MACHINES["h200"]
    slow = replace(machine.codec, encode_bytes_per_s=1e9, decode_bytes_per_s=1e9)
    choices = [
        plan(WORKLOAD, replace(machine, codec=codec)) for codec in (machine.codec, slow, None)
    ]
    assert [choice.chosen.variant.compressed for choice in choices] == [True, False, False]
    assert choices[0].seconds < choices[1].seconds == choices[2].seconds


def test_one_device_needs_no_link():
    alone = replace(WORKLOAD, num_inter=1, num_intra=1)
    found = plan(alone, MACHINES["h200"])
    timeline = timeline_of(Problem(alone, MACHINES["h200"]), found.chosen)
    assert timeline.busy_s("inter") == timeline.busy_s("intra") == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_experts": 60}, "64 places"),
        ({"layout": "sharded", "expert_hidden": 1001}, "expert_hidden"),
        ({"layout": "replicated", "num_kv_heads": 4}, "num_kv_heads"),
        ({"num_selected": 65}, "num_selected"),
        ({"num_layers": 0}, "num_layers"),
        ({"mode": "sideways"}, "mode"),
        ({"layout": "sideways"}, "layout"),
    ],
)
def test_workloads_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ArgumentError, match=message):
        plan(replace(WORKLOAD, **change), MACHINES["h200"])


def test_figures_that_a_machine_lacks_are_named():
    with pytest.raises(ArgumentError, match="num_chunks_max"):
        plan(WORKLOAD, MACHINES["h200"], num_chunks_max=0)
    with pytest.raises(UnsupportedError, match="has no codec"):
        Problem(WORKLOAD, MACHINES["fsmoe-a"]).step(Variant(compressed=True))
    bent = Link(latency_s=0, s_per_byte=1, fits={"all_reduce": Knots((1, 2), (1, 3))})
    with pytest.raises(UnsupportedError, match="must be a line"):
        plan(WORKLOAD, replace(MACHINES["h200"], inter=bent))
