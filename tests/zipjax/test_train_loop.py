"""Whole runs on one device: learning, resuming, refusing."""

import json
import os
import signal

import jax
import numpy as np
import pytest

from pallas_kernels import ArgumentError, ChecksumError
from tests.support.compile_cache import compile_cache
from tests.support.equal import assert_same_bits
from tests.zipjax.train_cases import quietly, tiny_config, tiny_text
from zipjax.train import checkpoints as checkpoints_module
from zipjax.train import closing_table, compare_states, make_train_mesh, summary, train
from zipjax.train import loop as loop_module


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    with compile_cache(tmp_path_factory.mktemp("programs")):
        yield


@pytest.fixture(scope="module")
def mesh():
    return make_train_mesh(4)


@pytest.fixture(scope="module")
def whole(mesh, tmp_path_factory):
    """A run without a stop, and its folder."""
    out = tmp_path_factory.mktemp("whole")
    return train(tiny_config(), tiny_text(), mesh, quietly(out)), out


def test_a_run_learns(mesh):
    config = tiny_config(steps=60, eval_every=60)
    outcome = train(config, tiny_text(), mesh, quietly(None))
    first, last = outcome.records[0], outcome.records[-1]
    assert first["loss"] == pytest.approx(np.log(256), rel=0.1)
    assert last["validation_loss"] < 0.7 * first["loss"]
    assert outcome.last_step == 60
    assert outcome.signal == 0


def test_a_resumed_run_goes_on_bit_for_bit(mesh, whole, tmp_path):
    """Parameters, optimizer state, metrics: as if nothing had happened."""
    config, text = tiny_config(), tiny_text()
    half = train(config, text, mesh, quietly(tmp_path, stop_after=3))
    assert half.last_step == 3
    rest = train(config, text, mesh, quietly(tmp_path, resume=True))
    assert (rest.first_step, rest.last_step) == (3, 6)

    straight, _ = whole
    assert_same_bits(rest.state, straight.state)
    assert rest.digest == straight.digest
    assert [without_time(r) for r in rest.records] == [without_time(r) for r in straight.records]


def test_a_finished_run_resumes_to_nothing(mesh, whole):
    outcome, out = whole
    again = train(tiny_config(), tiny_text(), mesh, quietly(out, resume=True))
    assert again.digest == outcome.digest
    assert summary(again, tokens_per_step=64)["tokens_per_s"] is None
    assert closing_table(again, tokens_per_step=64).row_count


def test_metrics_are_json_lines_of_every_step(whole):
    outcome, out = whole
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert records == outcome.records
    assert [record["step"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert ["validation_loss" in record for record in records] == [False, False, True] * 2
    assert records[0]["learning_rate"] == 0
    assert records[2]["learning_rate"] == pytest.approx(3e-3)


def test_lines_after_the_checkpoint_are_forgotten(mesh, tmp_path):
    config, text = tiny_config(), tiny_text()
    train(config, text, mesh, quietly(tmp_path, stop_after=3))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "loss": 99}\n{"step": 5, "lo')
    outcome = train(config, text, mesh, quietly(tmp_path, resume=True))
    assert [record["step"] for record in outcome.records] == [1, 2, 3, 4, 5, 6]
    assert outcome.records[3]["loss"] < 10


def test_a_new_run_sets_the_old_checkpoints_aside(mesh, tmp_path):
    config, text = tiny_config(steps=2), tiny_text()
    for _ in range(2):
        train(config, text, mesh, quietly(tmp_path))
    assert (tmp_path / "checkpoints" / "2").is_dir()
    assert (tmp_path / "checkpoints.previous" / "2").is_dir()


def test_ctrl_c_saves_and_ends(mesh, tmp_path, monkeypatch):
    class Pressing(loop_module.Traffic):
        def add_step(self, extra_rounds):
            super().add_step(extra_rounds)
            if self._num_steps == 2:
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    config, text = tiny_config(), tiny_text()
    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "Traffic", Pressing)
        outcome = train(config, text, mesh, quietly(tmp_path))
    assert (outcome.signal, outcome.last_step) == (signal.SIGINT, 2)
    assert signal.getsignal(signal.SIGINT) is before
    rest = train(config, text, mesh, quietly(tmp_path, resume=True))
    assert (rest.first_step, rest.last_step) == (2, 6)


def test_nothing_to_resume_from(mesh, tmp_path):
    with pytest.raises(ArgumentError, match="there must be a checkpoint to resume from; got none"):
        train(tiny_config(), tiny_text(), mesh, quietly(tmp_path, resume=True))


def test_another_run_cannot_be_resumed(mesh, whole):
    _, out = whole
    resume = quietly(out, resume=True)
    with pytest.raises(ArgumentError, match="seed=1 instead of 0, steps=9 instead of 6"):
        train(tiny_config(seed=1, steps=9), tiny_text(), mesh, resume)
    with pytest.raises(ArgumentError, match="the text must be the one"):
        train(tiny_config(), tiny_text(seed=1), mesh, resume)


def test_a_state_with_a_wrong_bit_is_refused(mesh, tmp_path, monkeypatch):
    """Orbax loads some damaged files without a word; the digest sees it."""
    config, text = tiny_config(steps=1), tiny_text()
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "digest_state", lambda state: "of what was saved")
        train(config, text, mesh, quietly(tmp_path))
    message = "the checkpoint of step 1 must hold what was saved; .* move its folder 1 away"
    with pytest.raises(ChecksumError, match=message):
        train(config, text, mesh, quietly(tmp_path, resume=True))


def test_the_codec_may_change_between_sessions(mesh, whole):
    outcome, out = whole
    again = train(tiny_config(codec=None), tiny_text(), mesh, quietly(out, resume=True))
    assert again.digest == outcome.digest


def test_a_comparison_names_what_differs(whole):
    outcome, _ = whole
    same = compare_states(outcome.state, outcome.state)
    assert same.identical
    assert same.sentence(steps=6).startswith(f"Bit-identical: all {same.num_elements:,} elements")

    norm = outcome.state.params["norm"]["scale"]
    changed = jax.tree.map(lambda leaf: leaf, outcome.state)
    changed.params["norm"]["scale"].set_value(norm[...].at[3].set(-norm[...][3]))
    found = compare_states(outcome.state, changed)
    assert found.differing == {"params/norm/scale/value": 1}
    assert found.sentence(steps=6).startswith("DIFFERENT after 6 steps: 1 of")


def without_time(record: dict) -> dict:
    """What must not depend on when a run was stopped (traffic is counted by session)."""
    timing = {"tokens_per_s", "raw_nbytes", "sent_nbytes"}
    return {key: value for key, value in record.items() if key not in timing}
