"""The simulator: order, priorities, contention, what it refuses, and what it draws."""

import json

import pytest

from pallas_kernels import ArgumentError
from parallel.planner import Contention, Task, simulate


def spans(timeline):
    return [(span.start_s, span.end_s) for span in timeline.spans]


def test_dependencies_and_resources():
    tasks = [Task("a", "x", 2), Task("b", "y", 3, (0,)), Task("c", "x", 4), Task("d", "y", 1, (2,))]
    timeline = simulate(tasks)
    assert spans(timeline) == [(0, 2), (2, 5), (2, 6), (6, 7)]
    assert timeline.makespan_s == 7
    assert timeline.busy_s("x") == 6 and timeline.busy_s("y") == 4
    assert timeline.gaps("y") == [(0, 2), (5, 6)]
    assert timeline.gaps("x") == [(6, 7)]


def test_the_smallest_priority_goes_first_and_ties_go_by_index():
    tasks = [Task("a", "x", 1, (), 2), Task("b", "x", 1, (), 1), Task("c", "x", 1, (), 1)]
    assert spans(simulate(tasks)) == [(2, 3), (0, 1), (1, 2)]


def test_a_stream_waits_for_its_head():
    tasks = [Task("slow", "y", 5), Task("first", "x", 1, (0,), 0), Task("later", "x", 1, (), 1)]
    assert spans(simulate(tasks))[1:] == [(5, 6), (0, 1)]
    assert spans(simulate(tasks, in_order=True))[1:] == [(5, 6), (6, 7)]


def test_nothing_is_preempted():
    tasks = [Task("long", "x", 10, (), 5), Task("gate", "y", 1), Task("urgent", "x", 1, (1,), 0)]
    assert spans(simulate(tasks))[2] == (10, 11)


def test_contention_slows_only_while_both_run():
    tasks = [Task("product", "compute", 10), Task("collective", "inter", 6)]
    timeline = simulate(tasks, contention=[Contention("compute", "inter", 2.0)])
    # 6 s at half speed leave 7 of 10.
    assert spans(timeline) == [(0, 13), (0, 6)]


def test_contentions_multiply():
    tasks = [Task("product", "compute", 4), Task("a", "inter", 16), Task("b", "intra", 16)]
    both = [Contention("compute", "inter", 2.0), Contention("compute", "intra", 2.0)]
    assert spans(simulate(tasks, contention=both))[0] == (0, 16)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([Task("a", "x", -1)], "seconds >= 0"),
        ([Task("a", "x", float("nan"))], "seconds >= 0"),
        ([Task("a", "x", 1, (3,))], "waits for task 3"),
        ([Task("a", "x", 1, (1,)), Task("b", "x", 1, (0,))], "circle"),
    ],
)
def test_refusals(tasks, message):
    with pytest.raises(ArgumentError, match=message):
        simulate(tasks)


def test_a_stream_whose_head_waits_for_a_later_task_is_refused():
    tasks = [Task("a", "x", 1, (1,), 0), Task("b", "x", 1, (), 1)]
    assert simulate(tasks).makespan_s == 2
    with pytest.raises(ArgumentError, match="queued behind"):
        simulate(tasks, in_order=True)


def test_a_factor_below_one_is_refused():
    with pytest.raises(ArgumentError, match="at least 1"):
        Contention("compute", "inter", 0.5)


def test_chrome_trace():
    timeline = simulate([Task("a", "x", 2e-3), Task("b", "y", 1e-3, (0,))])
    events = json.loads(timeline.chrome_trace())["traceEvents"]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["x", "y"]
    boxes = {e["name"]: (e["tid"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"}
    assert boxes == {"a": (0, 0.0, 2000.0), "b": (1, 2000.0, 1000.0)}


def test_nothing_takes_no_time():
    assert simulate([]).makespan_s == 0
