"""Settings of kernels: those by formula fit; measured ones are kept, found again and replaced."""

import dataclasses
import json
import math

import numpy as np
import pytest

from pallas_kernels import (
    GPUS,
    H200,
    L40S,
    ArgumentError,
    DecodeMatmulConfig,
    MatmulShape,
    TuningCache,
    TuningCacheWarning,
    UnsupportedError,
    decode_first_rows,
    decode_matmul_candidates,
    decode_matmul_config,
    dtype_from_name,
    tuned,
)
from pallas_kernels.tuning.cache import default_directory

BF16 = dtype_from_name("bfloat16")
LAYERS = [(4096, 4096), (4096, 14336), (14336, 4096), (2048, 768), (768, 2048), (5120, 1), (1, 131)]


def shape_of(rows=16, depth=4096, num_out=14336, dtype=BF16):
    return MatmulShape(rows=rows, depth=depth, num_out=num_out, dtype=dtype)


def config_of(num_stages=3, split_k=1):
    return DecodeMatmulConfig(num_stages=num_stages, split_k=split_k)


@pytest.mark.parametrize("depth, num_out", LAYERS)
@pytest.mark.parametrize("name", ["H200", "H100", "B200", "A100", "L40S"])
def test_candidates_fit_and_the_first_is_chosen(name, depth, num_out):
    gpu = GPUS[name]
    for rows in (1, 8, 33, 8192):
        shape = shape_of(rows, depth, num_out)
        candidates = decode_matmul_candidates(gpu, shape)
        assert len(set(candidates)) == len(candidates)
        assert decode_matmul_config(gpu, shape) == candidates[0]
        for config in candidates:
            assert config.fits(gpu, shape)
            assert config.split_k == 1 or shape.num_steps // config.split_k >= config.num_stages


def test_shared_memory_is_what_the_kernel_was_counted_to_take():
    """Per stage 45,056 bytes of words for 128 rows and 512 of each row of x; 2,048 in reserve."""
    for rows, stages in ((16, 3), (32, 3), (64, 2)):
        nbytes = stages * (45_056 + 512 * rows) + 128 * 256 + 2_048
        assert config_of(stages).smem_nbytes(shape_of(rows)) == nbytes


def test_few_rows_of_blocks_are_split_and_many_are_not():
    """4096 outputs are 32 to 64 blocks for 132 SMs; 132 * 128 outputs fill them exactly."""
    assert decode_matmul_config(H200, shape_of(16, 14336, 4096)).split_k > 1
    full = decode_matmul_config(H200, shape_of(16, 4096, 132 * 128))
    assert full.split_k == 1


def test_rows_are_tuned_in_four_classes():
    keys = {rows: shape_of(rows).key for rows in (1, 8, 9, 16, 17, 33, 64, 8192)}
    assert keys[1] == keys[8] != keys[9] == keys[16] != keys[17]
    assert keys[33] == keys[64] == keys[8192]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32"])
def test_decoding_first_pays_from_a_few_hundred_rows(gpu, name):
    rows = decode_first_rows(gpu, shape_of(dtype=dtype_from_name(name)))
    assert rows % 64 == 1
    assert 64 < rows < 1024


def test_where_only_memory_counts_traffic_decides():
    """Passes read 11.23 bits each; decoding first reads them once, and 2 bytes out and in."""
    slow = dataclasses.replace(H200, memory_bytes_per_s=H200.memory_bytes_per_s / 100)
    passes = math.floor((11.23 / 8 + 2 + 2) / (11.23 / 8))
    assert decode_first_rows(slow, shape_of()) == passes * 64 + 1


def test_refusals():
    with pytest.raises(ArgumentError, match="num_stages must be from 2 to 8; got 1"):
        config_of(num_stages=1)
    with pytest.raises(ArgumentError, match="split_k must be from 1 to 4096; got True"):
        config_of(split_k=True)
    with pytest.raises(ArgumentError, match="at least 1"):
        shape_of(rows=0)
    with pytest.raises(UnsupportedError, match="coded exponent"):
        shape_of(dtype=np.dtype(np.int8))
    small = dataclasses.replace(H200, smem_per_block_nbytes=L40S.smem_per_block_nbytes)
    with pytest.raises(UnsupportedError, match=r"two stages must fit .* H200"):
        decode_matmul_candidates(small, shape_of(64))
    assert decode_matmul_candidates(L40S, shape_of(64))  # its kernel has no stages


def test_measured_settings_come_back_and_hold_inside_the_block(tmp_path):
    shape, config = shape_of(), config_of(num_stages=2, split_k=7)
    assert TuningCache.load("NVIDIA H200", tmp_path).configs == {}
    path = TuningCache("NVIDIA H200", {shape.key: config}).save(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name] == ["nvidia-h200.json"]
    cache = TuningCache.load("NVIDIA H200", tmp_path)
    assert cache.get(shape) == config
    by_formula = decode_matmul_config(H200, shape)
    with tuned(cache):
        assert decode_matmul_config(H200, shape) == config
        assert decode_matmul_config(H200, shape_of(rows=64)).split_k != 7
    assert decode_matmul_config(H200, shape) == by_formula != config


def test_measured_settings_that_do_not_fit_are_passed_over():
    shape, config = shape_of(64), config_of(num_stages=4)
    with tuned(TuningCache("NVIDIA H200", {shape.key: config})):
        assert decode_matmul_config(H200, shape) != config


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[" * 100_000,
        lambda text: "\udcff",
        lambda text: "null",
        lambda text: text.replace('"version": 1', '"version": 2'),
        lambda text: text.replace("NVIDIA H200", "NVIDIA H100"),
        lambda text: text.replace('"split_k": 1', '"split_k": 0'),
        lambda text: text.replace("num_stages", "stages"),
        lambda text: json.dumps(json.loads(text) | {"decode_matmul": [1]}),
    ],
)
def test_a_damaged_file_is_passed_over_and_replaced(tmp_path, damage):
    cache = TuningCache("NVIDIA H200", {shape_of().key: config_of()})
    path = cache.save(tmp_path)
    path.write_bytes(damage(path.read_text()).encode("utf-8", "surrogateescape"))
    with pytest.warns(TuningCacheWarning, match=r"is passed over: .*bench kernels --tune"):
        assert TuningCache.load("NVIDIA H200", tmp_path).configs == {}
    cache.save(tmp_path)
    assert TuningCache.load("NVIDIA H200", tmp_path) == cache


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    cache = TuningCache("NVIDIA H200", {shape_of().key: config_of()})
    path = cache.save(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        TuningCache("NVIDIA H200").save(tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_where_files_are(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ZIPJAX_TUNING_DIR", raising=False)
    assert default_directory() == tmp_path / ".cache" / "zipjax" / "tuning"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory() == tmp_path / ".cache" / "zipjax" / "tuning"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert default_directory() == tmp_path / "x" / "zipjax" / "tuning"
    monkeypatch.setenv("ZIPJAX_TUNING_DIR", str(tmp_path / "y"))
    assert default_directory() == tmp_path / "y"
    TuningCache("a/../b").save()
    assert [file.name for file in (tmp_path / "y").iterdir()] == ["a-b.json"]
