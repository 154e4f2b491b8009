"""Machines: files round trip and refuse, every figure has a source, costs are what they say."""

import json
from dataclasses import replace

import pytest

from pallas_kernels import ArgumentError, FormatError, UnsupportedError
from parallel.planner import (
    MACHINES,
    Contention,
    Kernels,
    Line,
    Link,
    machine_from_json,
    machine_of,
    machine_to_json,
)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_a_machine_file_comes_back(machine):
    assert machine_from_json(machine_to_json(machine)) == machine


def test_a_machine_file_with_contention_comes_back():
    machine = replace(MACHINES["h200"], contention=(Contention("compute", "inter", 1.25),))
    assert machine_from_json(machine_to_json(machine)) == machine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.update(version=2), "version 1"),
        (lambda v: v.pop("kernels"), "kernels"),
        (lambda v: v.update(colour="red"), "colour"),
        (lambda v: v["inter"].pop("fits"), "fits"),
        (lambda v: v["inter"].update(latency_s=-1), "alpha_s >= 0"),
        (lambda v: v["inter"].update(latency_s="fast"), "fast"),
        (lambda v: v["inter"]["fits"].update(broadcast={"alpha_s": 1, "s_per_unit": 1}), "broad"),
        (lambda v: v["inter"]["fits"].update(all_to_all={"alpha_s": 1}), "cost must be"),
        (lambda v: v["inter"]["fits"].update(all_to_all=3), "cost must be"),
        (lambda v: v.update(sources={}), "sources"),
        (lambda v: v.update(num_intra=0), "num_intra"),
        (lambda v: v["codec"].update(ratio=0), "ratio"),
        (lambda v: v["codec"].pop("ratio"), "ratio"),
        (lambda v: v["kernels"].update(matmul={"amounts": [1, 2], "seconds": [1, 2]}), "line"),
    ],
)
def test_what_is_no_machine_is_refused(change, message):
    value = json.loads(machine_to_json(MACHINES["h200"]))
    change(value)
    with pytest.raises(FormatError, match=message):
        machine_from_json(json.dumps(value))


@pytest.mark.parametrize("text", ["", "[]", "{", "3"])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(FormatError):
        machine_from_json(text)


def test_an_unknown_machine_is_answered_with_the_known_ones():
    with pytest.raises(UnsupportedError, match="fsmoe-a, fsmoe-b"):
        machine_of("cray-1")


def test_collectives_from_a_link():
    link = Link(latency_s=1.0, s_per_byte=8.0)
    assert link.cost("all_to_all", 4) == Line(3.0, 6.0)
    assert link.cost("all_gather", 4) == link.cost("reduce_scatter", 4) == Line(3.0, 6.0)
    assert link.cost("all_reduce", 4) == Line(6.0, 12.0)
    assert link.cost("all_reduce", 1)(100) == 0
    # Of 8 devices on 2 nodes each sends 7 messages, half of its bytes to the other node.
    assert link.flat_cost(2, 4) == Line(7.0, 4.0)


def test_a_measured_collective_is_used_as_it_is():
    link = Link(latency_s=1.0, s_per_byte=8.0, fits={"all_to_all": Line(5.0, 7.0)})
    assert link.cost("all_to_all", 4) == link.flat_cost(2, 4) == Line(5.0, 7.0)
    assert link.cost("all_gather", 4) == Line(3.0, 6.0)


def test_unknown_collectives_and_rates_of_zero_are_refused():
    with pytest.raises(ArgumentError, match="broadcast"):
        Link(latency_s=1.0, s_per_byte=8.0).cost("broadcast", 2)
    with pytest.raises(ArgumentError, match="above zero"):
        Kernels(flops_per_s=0, bytes_per_s=1, launch_s=0)
