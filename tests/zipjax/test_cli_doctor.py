"""`zipjax doctor` and `zipjax selftest`."""

import dataclasses
import json

import pytest

import zipjax
from zipjax.cli import checks, doctor, main, selftest
from zipjax.cli.environment import Environment, read_environment
from zipjax.cli.known_problems import find_problems

WELL = Environment(
    python="3.13.1 CPython",
    platform="Linux-6.1-x86_64",
    num_cores=8,
    memory_nbytes=1 << 35,
    packages={"jax": "0.12.0.1", "jaxlib": "0.12.0.1", "flax": "0.12.12"},
    variables={
        "MALLOC_ARENA_MAX": "1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "100000000000",
    },
    devices={"cpu cpu": 1},
    hostname_address="10.0.0.5",
)


def _with(**changes) -> Environment:
    return dataclasses.replace(WELL, **changes)


def test_a_good_machine_has_no_problem():
    assert find_problems(WELL) == []


@pytest.mark.parametrize(
    "environment, level, text",
    [
        (_with(packages={"jax": "0.10.2", "jaxlib": "0.10.2"}), "note", "psum_scatter"),
        (_with(packages={"jax": "0.12.0", "flax": "0.12.8"}), "bad", "flax 0.12.8 does not go"),
        (_with(packages={"jax": "0.12.0", "jaxlib": "0.11.2"}), "bad", "different releases"),
        (_with(devices={"error: no driver": 0}), "bad", "no driver"),
        (_with(variables={}), "note", "several times slower"),
        (_with(hostname_address="127.0.1.1"), "note", "resolves to 127.0.1.1"),
        (_with(hostname_address=None), "note", "resolves to nothing"),
    ],
)
def test_known_problems_are_found_with_a_way_out(environment, level, text):
    (finding,) = find_problems(environment)
    assert finding.level == level and text in finding.what and finding.fix


def test_what_goes_together_is_not_complained_about():
    packages = {"jax": "0.10.2", "jaxlib": "0.10.2", "flax": "0.12.8"}
    gpu = _with(packages=packages, devices={"gpu NVIDIA H200": 1}, variables={})
    assert find_problems(gpu) == []


def test_the_block_and_the_findings_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "read_environment", lambda: _with(variables={}))
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert "jax       0.12.0.1" in out and "devices   1 x cpu cpu" in out
    assert "note: XLA on CPU" in err and "-> start Python with MALLOC_ARENA_MAX=1" in err


def test_what_must_be_changed_fails(monkeypatch, capsys):
    bad = _with(devices={"error: no driver": 0})
    monkeypatch.setattr(doctor, "read_environment", lambda: bad)
    assert main(["doctor", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["ok"] is False and value["findings"][0]["level"] == "bad"


def test_this_machine_can_be_read():
    environment = read_environment()
    assert environment.packages["zipjax"] == zipjax.__version__
    assert environment.num_cores >= 1 and sum(environment.devices.values()) >= 1
    assert json.dumps(environment.to_json())


def test_the_selftest_passes_here(capsys):
    assert main(["selftest"]) == 0
    out, err = capsys.readouterr()
    assert out.count("ok ") == len(checks.CHECKS) and "FAILED" not in out
    assert f"Passed {len(checks.CHECKS)} of {len(checks.CHECKS)} checks, in " in err


def test_the_selftest_can_fail(monkeypatch, capsys):
    def lose_a_bit(x):
        tensor = zipjax.compress(x)
        streams = dict(tensor.streams)
        name = next(name for name in ("raw", "remainder") if name in streams)
        streams[name] = streams[name] ^ streams[name].dtype.type(1)
        return dataclasses.replace(tensor, streams=streams)

    monkeypatch.setattr(checks, "compress", lose_a_bit)
    quick = {name: check for name, check in checks.CHECKS.items() if "pattern" in name}
    monkeypatch.setattr(selftest, "CHECKS", quick)
    assert main(["selftest", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert not value["ok"] and all("bytes wrong" in r["failure"] for r in value["results"])
