"""What a model is said to take before it is loaded, and what it takes then."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pallas_kernels import ArgumentError
from tests.zipjax.model_cases import CASES, draw_model, write_tensors
from zipjax.cli import main
from zipjax.models import cache_nbytes, empty_cache, estimate_model, load_model, save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Large enough to be compressed, in bfloat16."""
    path = tmp_path_factory.mktemp("models") / "mixtral"
    config = dataclasses.replace(CASES["mixtral"], width=256, vocab_size=512)
    save_model(path, draw_model(config, dtype=jnp.bfloat16))
    return path


def nbytes_of(model) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model)))


def test_plain_sizes_are_those_of_the_model(folder):
    estimate = estimate_model(folder)
    assert estimate.plain.nbytes == nbytes_of(load_model(folder))
    assert not estimate.exact


def test_expected_compressed_sizes_are_near(folder):
    got = nbytes_of(load_model(folder, compressed=True))
    assert abs(estimate_model(folder).compressed.nbytes / got - 1) < 0.03


def test_sizes_of_a_compressed_folder_are_exact(folder, tmp_path):
    """But for what cutting the tiles along the other axis changes."""
    assert main(["compress", str(folder), str(tmp_path / "z"), "--quiet"]) == 0
    estimate = estimate_model(tmp_path / "z")
    assert estimate.exact
    got = nbytes_of(load_model(tmp_path / "z"))
    assert abs(estimate.compressed.nbytes / got - 1) < 0.03
    assert estimate.plain.nbytes == nbytes_of(load_model(folder))


@pytest.mark.parametrize("name", CASES)
def test_the_cache_is_as_large_as_said(name):
    cache = empty_cache(CASES[name], 3, 7)
    assert cache_nbytes(CASES[name], 21) == cache.nbytes - cache.num_written.nbytes


def test_devices_share_what_is_cut(folder):
    one, eight = estimate_model(folder), estimate_model(folder, num_tensor=4, num_expert=2)
    assert one.plain.device_nbytes == one.plain.nbytes
    assert one.plain.nbytes / 8 < eight.plain.device_nbytes < one.plain.nbytes / 4
    assert eight.num_devices == 8
    with pytest.raises(ArgumentError, match="at least one device"):
        estimate_model(folder, num_tensor=0)


def test_the_command_says_whether_it_fits(folder, capsys):
    assert main(["estimate", str(folder), "--topology", "h200:2x4", "--experts", "2"]) == 0
    assert "of each of h200:2x4" in capsys.readouterr().err
    assert main(["estimate", str(folder), "--tokens", "1000000000", "--topology", "h200"]) == 1
    err = capsys.readouterr().err
    assert err.count("does not fit") == err.count("missing") == 2
    assert main(["estimate", str(folder), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fits"] == {"plain": True, "compressed": True}
    assert data["need_nbytes"]["plain"] > data["plain"]["nbytes"]


def test_only_headers_are_read(folder, tmp_path):
    """The tensors are a hole in the file: their bytes are zero, and nobody notices."""
    path = tmp_path / "model"
    save_model(path, draw_model(CASES["llama-tied"]))
    before = estimate_model(path)
    write_tensors(path, lambda tensors: [x.fill(0) for x in tensors.values()])
    assert estimate_model(path) == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--topology", "h300"), "h300"),
        (("--topology", "h200:8", "--experts", "3"), "must divide the 8 devices"),
        (("--tokens", "-1"), "at least 0"),
    ],
)
def test_mistakes_are_errors(folder, capsys, arguments, text):
    assert main(["estimate", str(folder), *arguments]) == 2
    assert text in capsys.readouterr().err


def test_a_model_of_hundreds_of_billions_takes_moments(tmp_path):
    """DeepSeek-V3's own sizes; the file of weights is all hole."""
    config = {
        "model_type": "deepseek_v3",
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "num_hidden_layers": 5,
        "num_attention_heads": 128,
        "max_position_embeddings": 163840,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    from zipjax.files.safetensors_file import new_safetensors_header, safetensors_prefix
    from zipjax.models import abstract_model, config_from_hf
    from zipjax.models.hf_names import slots_of

    slots = slots_of(abstract_model(config_from_hf(config)))
    tensors = {name: (np.dtype(jnp.bfloat16), s.tensor_shape) for s in slots for name in s.names}
    header = new_safetensors_header(tensors, {})
    with open(tmp_path / "model.safetensors", "wb") as file:
        file.write(safetensors_prefix(header))
        file.truncate(file.tell() + max(place.end for place in header.places))
    estimate = estimate_model(tmp_path, num_tensor=8)
    assert 50e9 < 2 * estimate.num_params == estimate.plain.nbytes
    assert estimate.compressed.nbytes < 0.72 * estimate.plain.nbytes
