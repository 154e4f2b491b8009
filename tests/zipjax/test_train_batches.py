"""The order of the text."""

import numpy as np
import pytest

from pallas_kernels import ArgumentError
from tests.zipjax.train_cases import tiny_config, tiny_text
from zipjax.train import Text
from zipjax.train.batches import Batches

COUNTING = Text(np.arange(200, dtype=np.uint8), np.arange(200, 250, dtype=np.uint8), "numbers", 1)


def test_an_epoch_shows_every_window_once():
    batches = Batches(COUNTING, tiny_config(batch=1, length=8))
    assert batches.num_windows == 24
    for epoch in range(3):
        rows = np.stack([batches.train(24 * epoch + i)[0] for i in range(24)])
        np.testing.assert_array_equal(rows[:, 1:], rows[:, :-1] + 1)
        starts = np.sort(rows[:, 0].astype(int))
        np.testing.assert_array_equal(np.diff(starts), 8)


def test_epochs_differ_in_order_and_offset():
    batches = Batches(COUNTING, tiny_config(batch=24, length=8))
    orders = [batches.train(epoch)[:, 0].tolist() for epoch in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    assert len({min(order) for order in orders}) > 1


def test_a_batch_is_a_function_of_seed_and_step():
    text = tiny_text()
    one, other = (Batches(text, tiny_config()) for _ in range(2))
    forwards = [one.train(step) for step in range(9)]
    backwards = [other.train(step) for step in reversed(range(9))][::-1]
    np.testing.assert_array_equal(forwards, backwards)
    another = Batches(text, tiny_config(seed=1))
    assert (another.train(0) != forwards[0]).any()


def test_the_position_names_the_next_window():
    batches = Batches(COUNTING, tiny_config(batch=10, length=8, seed=3))
    assert batches.position(5) == {"seed": 3, "epoch": 2, "window": 2}


def test_validation_windows_lie_in_the_text_held_back():
    rows = Batches(COUNTING, tiny_config(length=8)).validation()
    assert rows.shape == (2, 4, 9)
    assert rows.min() == 200
    assert rows.max() == 249
    np.testing.assert_array_equal(rows[..., 1:], rows[..., :-1] + 1)


@pytest.mark.parametrize(("train", "validation"), [(8, 50), (200, 8)])
def test_text_must_be_longer_than_a_sequence(train, validation):
    text = Text(np.zeros(train, np.uint8), np.zeros(validation, np.uint8), "zeros", 1)
    with pytest.raises(ArgumentError, match=f"longer than length=8; got {train} and {validation}"):
        Batches(text, tiny_config(length=8))


def test_the_shortest_text_works():
    text = Text(np.arange(9, dtype=np.uint8), np.arange(9, dtype=np.uint8), "nine", 1)
    batches = Batches(text, tiny_config(length=8, batch=2))
    np.testing.assert_array_equal(batches.train(7), [np.arange(9)] * 2)
