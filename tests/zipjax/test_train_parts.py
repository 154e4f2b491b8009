"""Schedules, traffic, progress, pictures, devices: the small parts of a run."""

import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from pallas_kernels import ArgumentError
from parallel import WireReport, WireRow
from parallel.wire import Site
from tests.zipjax.train_cases import tiny_config
from zipjax.train import OptimizerConfig, RunOptions, TrainConfig, make_train_mesh, plot_losses
from zipjax.train.devices import set_up_devices
from zipjax.train.metrics import MetricsFile
from zipjax.train.optimizer import learning_rate, make_optimizer
from zipjax.train.progress import Bar, Lines, Silent, make_reporter
from zipjax.train.state import abstract_state, init_state
from zipjax.train.traffic import Sent, Traffic


def test_the_learning_rate_rises_in_a_line_and_falls_in_half_a_cosine():
    config = OptimizerConfig(peak_rate=0.4, final_rate=0.25, warmup_steps=4)
    rate = learning_rate(config, steps=12)
    np.testing.assert_allclose([rate(step) for step in range(5)], [0, 0.1, 0.2, 0.3, 0.4], 1e-6)
    cosine = [0.1 + 0.3 * (1 + np.cos(np.pi * step / 8)) / 2 for step in range(9)]
    np.testing.assert_allclose([rate(step) for step in range(4, 13)], cosine, 1e-6)


def test_a_run_of_one_step_has_a_schedule():
    assert learning_rate(OptimizerConfig(), steps=1)(0) == pytest.approx(3e-3)


def test_matrices_decay_and_scales_of_norms_do_not():
    config = tiny_config()
    state = init_state(config, make_train_mesh(4))
    optimizer = make_optimizer(OptimizerConfig(warmup_steps=0, weight_decay=0.5), steps=2)
    zeros = jax.tree.map(jnp.zeros_like, state.params)
    updates, _ = optimizer.update(zeros, optimizer.init(state.params), state.params)
    np.testing.assert_array_equal(updates["norm"]["scale"][...], 0)
    kernel = state.params["blocks"]["attention"]["query"]["kernel"][...]
    got = updates["blocks"]["attention"]["query"]["kernel"][...]
    np.testing.assert_allclose(got, -0.5 * 3e-3 * kernel, rtol=1e-5)


def test_the_state_is_as_it_was_announced():
    config = tiny_config()
    state, abstract = init_state(config, make_train_mesh(4)), abstract_state(config)
    kinds = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)
    assert kinds(state) == kinds(abstract)
    assert all(leaf.dtype.itemsize == 4 for leaf in jax.tree.leaves(abstract))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainConfig(batch=0), "batch must be at least 1; got 0"),
        (lambda: TrainConfig(seed=-1), "seed must be at least 0; got -1"),
        (lambda: OptimizerConfig(peak_rate=0.0), "peak_rate must be positive"),
        (lambda: OptimizerConfig(beta2=1.5), "beta2 must be between 0 and 1"),
        (lambda: OptimizerConfig(warmup_steps=-1), "warmup_steps must be at least 0"),
        (lambda: RunOptions(save_every=0), "save_every must be at least 1"),
        (lambda: RunOptions(stop_after=0), "stop_after must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_config_is_plain_json():
    config = TrainConfig()
    assert json.loads(json.dumps(config.to_json())) == config.to_json()


class TwoFallbacks:
    """What `record_fallbacks` would have counted."""

    def __init__(self, site):
        self.site = site

    def extra_nbytes_by_site(self):
        return {self.site: 7.0}

    def counts(self):
        return {self.site: 2}


def test_traffic_adds_steps_rounds_and_fallbacks():
    exchange, reduce = Site("all_to_all", "a.py:1"), Site("psum", "b.py:2")
    row = lambda site, axis, raw, sent, **kind: WireRow(
        site=site, axis=axis, num_messages=1, raw_nbytes=raw, sent_nbytes=sent, **kind
    )
    report = WireReport(
        (
            row(exchange, ("expert",), 100.0, 70.0),
            row(exchange, ("expert",), 10.0, 8.0, in_while=True),
            row(reduce, ("data", "expert"), 50.0, 45.0),
        )
    )
    traffic = Traffic(report, TwoFallbacks(exchange), make_train_mesh(4))
    for extra_rounds in (0.0, 1.5, 0.5):
        traffic.add_step(extra_rounds)
    assert traffic.by_axis() == {
        "expert": Sent(3 * 100 + 2 * 10, 3 * 70 + 2 * 8 + 7),
        "data, expert": Sent(150, 135),
    }
    assert traffic.total() == Sent(470, 368)
    assert traffic.total().saved_share == pytest.approx(102 / 470)
    assert traffic.num_fallbacks() == 2
    assert Sent().saved_share == 0


def test_without_a_terminal_there_is_a_line_each_tenth(capsys):
    lines = make_reporter(first=50, steps=200, silent=False)
    assert isinstance(lines, Lines)
    for step in range(51, 201):
        lines.update(step, "loss 1")
    lines.close()
    said = capsys.readouterr()
    want = [f"step {step}/200: loss 1" for step in range(60, 201, 20)]
    assert said.err.splitlines() == want
    assert said.out == ""


def test_on_a_terminal_there_is_a_bar():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    bar = Bar(console, first=0, steps=4)
    bar.say("[not markup]")
    bar.update(3, "loss 2.5")
    bar.close()
    assert "[not markup]" in screen.getvalue()
    assert "step 3/4" in screen.getvalue()
    assert "loss 2.5" in screen.getvalue()


def test_other_processes_say_nothing(capsys):
    silent = make_reporter(first=0, steps=1, silent=True)
    assert isinstance(silent, Silent)
    silent.say("x")
    silent.update(1, "x")
    silent.close()
    assert capsys.readouterr() == ("", "")


def test_metrics_may_stay_in_memory():
    metrics = MetricsFile(None)
    metrics.add({"step": 1})
    metrics.close()
    assert metrics.records == [{"step": 1}]


@pytest.mark.parametrize("validated", [False, True])
def test_the_loss_curve_is_a_picture(tmp_path, validated):
    records = [{"step": step, "loss": 5 / step} for step in range(1, 60)]
    if validated:
        records[-1]["validation_loss"] = 0.2
    plot_losses(records, tmp_path / "loss.png", title="a run")
    assert (tmp_path / "loss.png").stat().st_size > 10_000


def test_several_processes_need_all_three_settings(monkeypatch):
    with pytest.raises(ArgumentError, match="several processes need a coordinator"):
        set_up_devices(coordinator="localhost:1", num_processes=2)
    monkeypatch.setenv("JAX_PROCESS_ID", "first")
    with pytest.raises(ArgumentError, match="JAX_PROCESS_ID must be a whole number; got 'first'"):
        set_up_devices()


def test_devices_cannot_be_set_up_twice():
    jax.devices()
    with pytest.raises(ArgumentError, match="before JAX uses any"):
        set_up_devices(num_cpu_devices=3)
