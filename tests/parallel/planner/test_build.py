"""From sizes to work: bytes, operations and tokens are those counted by hand."""

from dataclasses import replace
from itertools import combinations
from math import comb

import pytest

from pallas_kernels import ArgumentError
from parallel.planner import Kernels, Line, Link, Machine, Variant, Workload, roofline
from parallel.planner.build import build, variants
from parallel.planner.routing_stats import num_groups_reached

KERNELS = Kernels(flops_per_s=1e3, bytes_per_s=1e9, launch_s=0.0)
MACHINE = Machine(
    name="plain",
    num_intra=2,
    inter=Link(latency_s=0.0, s_per_byte=1.0),
    intra=Link(latency_s=0.0, s_per_byte=1.0),
    kernels=KERNELS,
    sources={"all": "made up"},
)
PLAIN = Variant()
WORKLOAD = Workload(
    num_layers=3,
    num_tokens=10,
    seq_len=4,
    width=6,
    num_heads=4,
    num_kv_heads=2,
    head_dim=2,
    num_experts=8,
    num_selected=3,
    expert_hidden=8,
    num_inter=4,
    num_intra=2,
)


def amounts(workload, variant=PLAIN):
    part = build(workload, MACHINE, variant).forward
    return {work.name: work.amount for work in (*part.dense, *part.moe)}


@pytest.mark.parametrize("num_selected", [1, 2, 3, 5])
@pytest.mark.parametrize("num_groups", [1, 2, 4, 8])
def test_groups_reached_by_every_choice_of_experts(num_groups, num_selected):
    """The closed form is the mean over all ways to choose the experts of a token."""
    reached = [
        len({expert * num_groups // 8 for expert in chosen})
        for chosen in combinations(range(8), num_selected)
    ]
    expected = num_groups_reached(num_groups=num_groups, num_experts=8, num_selected=num_selected)
    assert expected == pytest.approx(sum(reached) / comb(8, num_selected), rel=1e-12)


def test_groups_that_do_not_divide_the_experts_are_refused():
    with pytest.raises(ArgumentError, match="num_groups"):
        num_groups_reached(num_groups=3, num_experts=8, num_selected=2)


def test_everywhere_sends_a_copy_for_every_expert_device_or_node():
    token = 6 * 2
    flat = amounts(WORKLOAD)
    assert flat == {"attention": 10, "dispatch": 30 * token, "experts": 30, "combine": 30 * token}
    devices = num_groups_reached(num_groups=8, num_experts=8, num_selected=3)
    nodes = num_groups_reached(num_groups=4, num_experts=8, num_selected=3)
    assert devices == 3 > nodes
    assert amounts(WORKLOAD, Variant(levels=1))["dispatch"] == 10 * devices * token
    two = amounts(WORKLOAD, Variant(levels=2))
    assert two["dispatch"] == two["combine"] == 10 * nodes * token
    assert two["spread"] == two["collect"] == 10 * devices * token
    assert two["experts"] == 30


def test_sharded_gathers_the_tokens_of_a_node():
    found = amounts(replace(WORKLOAD, layout="sharded"))
    assert found["dispatch"] == 30 * 12 and found["gather"] == found["scatter"] == 2 * 30 * 12
    assert found["experts"] == 60


def test_replicated_and_its_splits():
    workload = replace(WORKLOAD, layout="replicated")
    plain = amounts(workload)
    assert plain["dispatch"] == plain["add up"] == plain["share"] == 30 * 12
    assert plain["gather tokens"] == plain["scatter tokens"] == 10 * 12
    for split, shared in (("S1", 10 * 12), ("S2", 30 * 12)):
        found = amounts(workload, Variant(split=split))
        assert found["dispatch"] == found["combine"] == 30 * 12 / 2
        assert found["gather"] == found["scatter"] == 30 * 12 and found["share"] == shared


def test_the_work_of_a_device_is_the_same_in_every_layout():
    """Sharded experts see more tokens and have as much less to do for each."""
    seconds = []
    for layout in ("everywhere", "sharded"):
        step = build(replace(WORKLOAD, layout=layout), MACHINE, Variant())
        seconds.append(next(w for w in step.forward.moe if w.name == "experts").seconds(1))
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-12)
    assert seconds[0] == pytest.approx(30 * 2 * 3 * 6 * 8 / 1e3, rel=1e-12)


def test_attention_counts_projections_and_half_the_square():
    step = build(WORKLOAD, MACHINE, Variant())
    projections = 2 * 6 * (2 * 8 + 2 * 4)
    scores = 2 * 2 * 8 * 4 / 2
    (attention,) = step.forward.dense
    assert attention.seconds(1) == pytest.approx(10 * (projections + scores) / 1e3, rel=1e-12)
    assert step.backward.dense[0].seconds(1) == pytest.approx(2 * attention.seconds(1), rel=1e-12)


def test_a_shared_expert_stands_with_attention_and_has_gradients():
    workload = replace(WORKLOAD, shared_hidden=8)
    step = build(workload, MACHINE, Variant())
    assert step.forward.dense[1].seconds(1) == pytest.approx(10 * 2 * 3 * 6 * 8 / 1e3, rel=1e-12)
    more = workload.dense_gradient_nbytes - WORKLOAD.dense_gradient_nbytes
    assert more == 3 * 6 * 8 * 2


def test_one_node_exchanges_over_its_own_link():
    step = build(replace(WORKLOAD, num_inter=1, num_intra=8), MACHINE, Variant())
    assert {work.resource for work in step.forward.moe} == {"intra", "compute"}


def test_few_tokens_wait_for_weights_and_many_for_products():
    kernels = Kernels(flops_per_s=1e15, bytes_per_s=1e12, launch_s=1e-6)
    cost = roofline.matmul(kernels, inner=4096, outer=4096, nbytes=2)
    weights_s = 4096 * 4096 * 2 / 1e12
    assert cost(1) == pytest.approx(1e-6 + weights_s + 2 * 4096 * 2 / 1e12, rel=1e-12)
    assert cost(1e6) == pytest.approx(1e-6 + 1e6 * 2 * 4096 * 4096 / 1e15, rel=1e-12)


def test_a_measured_product_takes_the_place_of_the_roofline():
    kernels = replace(KERNELS, matmul=Line(2.0, 3.0))
    assert roofline.matmul(kernels, inner=2, outer=5, nbytes=2)(7) == 2.0 + 3.0 * 7 * 2 * 2 * 5


def test_variants_are_those_that_the_layout_and_machine_have():
    assert variants(WORKLOAD, MACHINE) == [Variant(0), Variant(1), Variant(2)]
    assert variants(replace(WORKLOAD, layout="sharded"), MACHINE) == [Variant()]
    replicated = variants(replace(WORKLOAD, layout="replicated"), MACHINE)
    assert [variant.split for variant in replicated] == ["", "S1", "S2"]
