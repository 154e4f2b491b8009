"""The dropless exchange against the dense oracle: equal on bits, forward and backward."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ArgumentError, ExponentConfig
from parallel import moe
from tests.parallel.moe_cases import (
    NUM_EXPERTS,
    dense,
    exact_case,
    linear_experts,
    spread,
)
from tests.support.equal import assert_same_bits

NUM_RANKS = 8
TOKENS_PER_RANK = 24


@pytest.mark.parametrize("schedule", [(24, 24), (8, 4), (5, 3), (1, 1)])
@pytest.mark.parametrize("crowded", [False, True])
def test_any_number_of_rounds_gives_the_bits_of_the_dense_oracle(mesh, schedule, crowded):
    case = exact_case(NUM_RANKS * TOKENS_PER_RANK, 2, crowded=crowded)
    schedule = moe.Schedule(*schedule)

    got, num_rounds = spread(case, mesh, schedule=schedule)

    assert_same_bits(got, dense(case))
    lengths = _queue_lengths(case.routing.expert_idx)
    longest = lengths.reshape(2, 4, NUM_EXPERTS).max(axis=(1, 2))
    want = 1 + np.maximum(-(-(longest - schedule.first) // schedule.later), 0)
    np.testing.assert_array_equal(num_rounds, want)


@pytest.mark.parametrize("num_selected", [1, 3, NUM_EXPERTS])
def test_any_number_of_choices(mesh, num_selected):
    case = exact_case(NUM_RANKS * 8, num_selected, seed=num_selected)
    got, _ = spread(case, mesh, schedule=moe.Schedule(4, 2))
    assert_same_bits(got, dense(case))


@pytest.mark.parametrize("crowded", [False, True])
def test_the_codec_changes_no_bit(mesh, crowded):
    """An explicit config codes messages of any size; the tiny far list makes some overflow."""
    case = exact_case(NUM_RANKS * TOKENS_PER_RANK, 2, crowded=crowded)
    config = ExponentConfig(max_run_elems=16)
    got, _ = spread(case, mesh, schedule=moe.Schedule(8, 4), codec=config)
    assert_same_bits(got, dense(case))


def test_one_device_needs_no_axis():
    case = exact_case(40, 2)

    def loss(matrices, tokens, weights):
        routing = case.routing._replace(weights=weights)
        schedule = moe.Schedule(3, 2)
        mixed = moe.mixture(linear_experts, matrices, tokens, routing, schedule=schedule)
        return jnp.sum(mixed.values * case.cotangent), mixed.values

    operands = (case.matrices, case.tokens, case.routing.weights)
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))
    (_, values), gradients = gradient(*operands)
    assert_same_bits((values, gradients), dense(case))


def test_experts_without_tokens_get_gradients_of_zero(mesh):
    case = exact_case(NUM_RANKS * 8, 2, crowded=True)
    (_, (matrices, _, _)), _ = spread(case, mesh)
    idle = np.setdiff1d(np.arange(NUM_EXPERTS), case.routing.expert_idx)
    assert idle.size == NUM_EXPERTS - 2
    assert_same_bits(matrices[idle], np.zeros_like(case.matrices[idle]))


def test_float_experts_agree_with_the_oracle_up_to_the_order_of_sums(mesh):
    """A product of other shapes adds its 16 terms in another order: a few units of 2**-24 each.

    What travels is then rounded to bfloat16, and a value that lies at a rounding edge may fall to
    either side of it: one unit of 2**-8 of a row's terms, on few elements.
    """
    rng = np.random.default_rng(7)
    case = exact_case(NUM_RANKS * TOKENS_PER_RANK, 2)
    draw = lambda like: rng.standard_normal(like.shape).astype(np.float32)
    case = type(case)(draw(case.matrices), draw(case.tokens), case.routing, draw(case.cotangent))

    (values, gradients), _ = spread(case, mesh, schedule=moe.Schedule(8, 4))
    want_values, want_gradients = dense(case)

    for got, want in zip((values, *gradients), (want_values, *want_gradients), strict=True):
        off = np.abs(np.asarray(got) - np.asarray(want)) / np.abs(want).max()
        assert off.max() < 2**-7
        assert np.mean(off > 2**-20) < 0.02


def test_float_experts_give_the_same_bits_with_and_without_codec(mesh):
    rng = np.random.default_rng(8)
    case = exact_case(NUM_RANKS * TOKENS_PER_RANK, 2)
    draw = lambda like: rng.standard_normal(like.shape).astype(np.float32)
    case = type(case)(draw(case.matrices), draw(case.tokens), case.routing, draw(case.cotangent))
    schedule = moe.Schedule(8, 4)
    raw, _ = spread(case, mesh, schedule=schedule)
    coded, _ = spread(case, mesh, schedule=schedule, codec=ExponentConfig(max_run_elems=16))
    assert_same_bits(coded, raw)


def test_experts_must_divide_over_the_ranks(mesh):
    case = exact_case(NUM_RANKS * 4, 1)
    odd = case.routing._replace(probs=np.zeros((NUM_RANKS * 4, 6), np.float32))
    case = type(case)(case.matrices, case.tokens, odd, case.cotangent)
    with pytest.raises(ArgumentError, match="divisible by the 4 ranks of 'fast'; got 6"):
        spread(case, mesh)


@pytest.mark.parametrize("schedule", [(0, 1), (4, 0)])
def test_a_round_must_take_something(mesh, schedule):
    with pytest.raises(ArgumentError, match="every round must take at least one position"):
        spread(exact_case(NUM_RANKS * 4, 1), mesh, schedule=moe.Schedule(*schedule))


def test_no_tokens_are_refused():
    case = exact_case(1, 1)
    none = jax.tree.map(lambda leaf: leaf[:0], case.routing)
    with pytest.raises(ArgumentError, match="at least one token"):
        moe.mixture(linear_experts, case.matrices, case.tokens[:0], none)


def _queue_lengths(expert_idx: np.ndarray) -> np.ndarray:
    """[ranks, experts]"""
    per_rank = expert_idx.reshape(NUM_RANKS, -1)
    return np.stack([np.bincount(rank, minlength=NUM_EXPERTS) for rank in per_rank])
