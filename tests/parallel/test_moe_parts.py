"""The parts of a mixture, each against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ArgumentError
from parallel import moe
from tests.support.equal import assert_same_bits


def test_routing_takes_the_largest_and_normalises():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((50, 8)).astype(np.float32)

    routing = moe.route(logits, num_selected=3)

    exp = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probs = exp / exp.sum(axis=1, keepdims=True)
    chosen = np.argsort(-probs, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(routing.expert_idx, chosen)
    weights = np.take_along_axis(probs, chosen, axis=1)
    weights /= weights.sum(axis=1, keepdims=True)
    # float32 exp and division: a few units in the last place.
    np.testing.assert_allclose(routing.probs, probs, rtol=2**-20)
    np.testing.assert_allclose(routing.weights, weights, rtol=2**-20)


def test_ties_go_to_the_lower_expert():
    routing = moe.route(np.zeros((3, 4), np.float32), num_selected=2)
    np.testing.assert_array_equal(routing.expert_idx, [[0, 1]] * 3)
    np.testing.assert_array_equal(routing.weights, np.full((3, 2), 0.5))


@pytest.mark.parametrize("num_selected", [0, 5])
def test_routing_refuses_more_choices_than_experts(num_selected):
    with pytest.raises(ArgumentError, match="between 1 and the 4 experts"):
        moe.route(np.zeros((3, 4), np.float32), num_selected=num_selected)


@pytest.mark.parametrize("seed", range(4))
def test_queues_hold_every_assignment_once_in_order_of_tokens(seed):
    rng = np.random.default_rng(seed)
    expert_idx = np.stack([rng.permutation(6)[:2] for _ in range(30)]).astype(np.int32)

    queues = moe.line_up(expert_idx, num_experts=6)

    flat = expert_idx.reshape(-1)
    want = [[a for a in range(60) if flat[a] == expert] for expert in range(6)]
    np.testing.assert_array_equal(queues.order, np.concatenate(want))
    np.testing.assert_array_equal(queues.counts, [len(queue) for queue in want])
    for expert, queue in enumerate(want):
        np.testing.assert_array_equal(np.asarray(queues.positions)[queue], np.arange(len(queue)))
        if queue:
            assert queues.order[queues.offsets[expert]] == queue[0]


def test_dispatch_and_collect_are_inverse_where_a_round_reaches():
    rng = np.random.default_rng(3)
    expert_idx = np.stack([rng.permutation(4)[:2] for _ in range(20)]).astype(np.int32)
    tokens = rng.integers(-9, 9, (20, 5)).astype(np.float32)
    queues = moe.line_up(expert_idx, num_experts=4)
    found = np.zeros((40, 5), np.float32)
    for start in range(0, 20, 3):
        slots, handle = moe.dispatch(tokens, queues, start, capacity=3)
        assert slots.shape == (4, 3, 5)
        assert slots.dtype == jnp.bfloat16
        found += np.asarray(moe.collect(slots, handle), np.float32)
    np.testing.assert_array_equal(found, tokens.repeat(2, axis=0))


def test_combine_adds_first_choice_first():
    """1e8 + 1 - 1e8 is 0 in this order in float32, and 1 in the other."""
    rows = np.array([[1e8], [1.0], [-1e8]], np.float32)
    assert_same_bits(moe.combine(rows, np.ones((1, 3), np.float32)), np.zeros((1, 1), np.float32))


def test_the_balance_loss_is_one_when_even_and_the_number_of_experts_when_not():
    even = moe.route(np.tile(np.eye(4, dtype=np.float32) * 50, (3, 1)), num_selected=1)
    counts = np.bincount(np.asarray(even.expert_idx).reshape(-1), minlength=4)
    assert moe.balance_loss(even, jnp.asarray(counts)) == pytest.approx(1, rel=1e-6)

    crowded = moe.route(np.tile(np.float32([50, 0, 0, 0]), (12, 1)), num_selected=1)
    counts = jnp.asarray([12, 0, 0, 0])
    assert moe.balance_loss(crowded, counts) == pytest.approx(4, rel=1e-6)


def test_the_balance_loss_pushes_a_crowded_expert_down():
    logits = np.tile(np.float32([2, 0, 0, 0]), (12, 1))

    def loss(logits):
        routing = moe.route(logits, num_selected=1)
        return moe.balance_loss(routing, jnp.asarray([12, 0, 0, 0]))

    gradient = np.asarray(jax.grad(loss)(logits))
    assert (gradient[:, 0] > 0).all()
    assert (gradient[:, 1:] < 0).all()


@pytest.mark.parametrize(
    ("num_tokens", "num_selected", "num_experts"), [(512, 2, 8), (16, 2, 4), (5, 1, 64), (7, 4, 4)]
)
def test_the_default_schedule_is_no_larger_than_a_queue_can_be(
    num_tokens, num_selected, num_experts
):
    schedule = moe.default_schedule(num_tokens, num_selected, num_experts)
    assert 1 <= schedule.later <= schedule.first <= num_tokens
