"""`zipjax bench kernels`: refuses without a GPU; tunes, where a CPU plays one, and keeps it."""

import json

import pytest

from pallas_kernels import H200, DecodeMatmulConfig, TuningCache, UnsupportedError, ZipError
from zipjax.cli import bench, main
from zipjax.cli.bench import Bench, fastest, run_on


def test_it_refuses_without_a_gpu(capsys):
    assert main(["bench", "kernels", "--tune"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert "timed on a GPU of a known kind; got cpu" in err


def test_tuning_keeps_the_fastest(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ZIPJAX_TUNING_DIR", str(tmp_path))
    monkeypatch.setattr(bench, "_ROUNDS", 1)
    monkeypatch.setattr(
        bench, "decode_matmul_candidates", lambda *_: [config_of(2, 1), config_of(3, 2)]
    )
    options = Bench(what="kernels", shapes=("64x128",), rows=(40,), tune=True, json=True)
    assert run_on(H200, "NVIDIA H200", options)
    printed = json.loads(capsys.readouterr().out)
    kept = TuningCache.load("NVIDIA H200").configs
    assert set(kept) == {"64x64x128 bfloat16"}
    assert printed["settings"] == str(tmp_path / "nvidia-h200.json")
    for result, config in zip(printed["results"], kept.values(), strict=True):
        assert result["ours_us"] > 0 and result["plain_us"] > 0
        assert config in (config_of(2, 1), config_of(3, 2))


def test_timing_alone_keeps_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ZIPJAX_TUNING_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(bench, "_ROUNDS", 1)
    assert run_on(H200, "NVIDIA H200", Bench(what="kernels", shapes=("64x128",), rows=(1,)))
    out, err = capsys.readouterr()
    assert "split_k" in out and "Nothing kept." in err
    assert not (tmp_path / "none").exists()


def test_the_fastest_of_those_that_work():
    times = {config_of(2, 1): 3.0, config_of(3, 2): 2.0}

    def time_of(config):
        if config.num_stages == 4:
            raise UnsupportedError("too large")
        return times[config]

    assert fastest([config_of(4, 1), *times], time_of) == config_of(3, 2)
    with pytest.raises(UnsupportedError, match="no setting works; got too large"):
        fastest([config_of(4, 1)], time_of)


def test_shapes_are_checked():
    with pytest.raises(ZipError, match="shapes must be KxN; got '64'"):
        run_on(H200, "NVIDIA H200", Bench(what="kernels", shapes=("64",)))


def config_of(num_stages, split_k):
    return DecodeMatmulConfig(num_stages=num_stages, split_k=split_k)
