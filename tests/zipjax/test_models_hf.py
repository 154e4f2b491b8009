"""config.json and tensors: what is refused, by which words, and what transformers computes."""

import dataclasses
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from flax import nnx

from pallas_kernels import ArgumentError, FormatError, UnsupportedError
from tests.zipjax.model_cases import CASES, ROPES, draw_model, write_tensors
from zipjax.models import config_from_hf, config_to_hf, load_model, save_model

LLAMA = config_to_hf(CASES["llama"])
DEEPSEEK = config_to_hf(CASES["deepseek_v3"])
NEEDS_TRANSFORMERS = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None,
    reason="transformers and torch are not installed; they are in the extra `peers`",
)


@pytest.mark.parametrize("name", CASES)
def test_a_config_survives(name):
    assert config_from_hf(config_to_hf(CASES[name])) == CASES[name]


@pytest.mark.parametrize("name", ROPES)
def test_ways_to_stretch_positions_survive(name):
    config = dataclasses.replace(CASES["llama"], rope=ROPES[name])
    assert config_from_hf(config_to_hf(config)) == config


@pytest.mark.parametrize("name", [name for name in ROPES if name.startswith("yarn")])
def test_both_spellings_are_the_same(name):
    """transformers 5 has one object, `rope_parameters`, and says `dtype`."""
    old = config_to_hf(dataclasses.replace(CASES["llama"], rope=ROPES[name]))
    new = dict(old)
    new["rope_parameters"] = new.pop("rope_scaling") | {"rope_theta": new.pop("rope_theta")}
    new["dtype"] = new.pop("torch_dtype")
    assert config_from_hf(new) == config_from_hf(old)


def test_the_magnitude_of_yarn_follows_from_its_weights():
    """DeepSeek-V3: both weights 1 leave the rotated part and scale the softmax (YaRN, eq. 22)."""
    scaling = {
        "type": "yarn",
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    }
    config = config_from_hf(DEEPSEEK | {"rope_scaling": scaling})
    assert config.rope.attention_factor == 1.0
    np.testing.assert_allclose(config.attention.softmax_factor, (0.1 * np.log(40) + 1) ** 2)
    del scaling["mscale"], scaling["mscale_all_dim"]
    config = config_from_hf(DEEPSEEK | {"rope_scaling": scaling})
    np.testing.assert_allclose(config.rope.attention_factor, 0.1 * np.log(40) + 1)
    assert config.attention.softmax_factor == 1.0


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        (LLAMA | {"model_type": "lama"}, UnsupportedError, "did you mean 'llama'"),
        (LLAMA | {"hidden_act": "gelu"}, UnsupportedError, "hidden_act .* got 'gelu'"),
        (LLAMA | {"surprise": 1}, UnsupportedError, "'surprise'.*ignored_fields"),
        (LLAMA | {"quantization_config": {"quant_method": "fp8"}}, UnsupportedError, "quantiz"),
        (LLAMA | {"rope_scaling": {"rope_type": "longrope"}}, UnsupportedError, "'longrope'"),
        (
            LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 2, "alpha": 1}},
            UnsupportedError,
            "rope_scaling in config.json .*'alpha'",
        ),
        (LLAMA | {"rope_scaling": {"type": "linear"}}, FormatError, "have the field factor"),
        (LLAMA | {"partial_rotary_factor": 0.5}, UnsupportedError, "partial_rotary_factor"),
        (LLAMA | {"hidden_size": "32"}, FormatError, "hidden_size .* an integer"),
        (LLAMA | {"hidden_size": True}, FormatError, "hidden_size .* an integer"),
        (LLAMA | {"attention_bias": 1}, FormatError, "attention_bias .* true or false"),
        (LLAMA | {"torch_dtype": "float8"}, UnsupportedError, "dtype"),
        (LLAMA | {"num_key_value_heads": 3}, ArgumentError, "num_kv_heads must divide"),
        (LLAMA | {"num_hidden_layers": None}, FormatError, "num_hidden_layers"),
        (DEEPSEEK | {"scoring_func": "softmax"}, UnsupportedError, "scoring_func"),
        (DEEPSEEK | {"topk_method": "greedy"}, UnsupportedError, "topk_method"),
        (DEEPSEEK | {"moe_layer_freq": 2}, UnsupportedError, "moe_layer_freq"),
        (DEEPSEEK | {"num_key_value_heads": 2}, UnsupportedError, "num_key_value_heads"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(values, error, text):
    with pytest.raises(error, match=text):
        config_from_hf(values)


def test_a_field_can_be_ignored():
    config = config_from_hf(LLAMA | {"surprise": 1}, ignored_fields=("surprise",))
    assert config == CASES["llama"]


@pytest.fixture
def folder(tmp_path) -> Path:
    save_model(tmp_path / "model", draw_model(CASES["llama-tied"]))
    return tmp_path / "model"


def test_wrong_tensors_are_named_in_one_error(folder):
    def change(tensors):
        del tensors["model.layers.0.mlp.up_proj.weight"]
        tensors["model.layers.7.mlp.up_proj.weight"] = np.zeros(3, np.float32)
        name = "model.layers.1.self_attn.k_proj.weight"
        tensors[name] = np.ascontiguousarray(tensors[name].T)

    write_tensors(folder, change)
    with pytest.raises(FormatError) as caught:
        load_model(folder)
    text = str(caught.value)
    assert "1 missing: 'model.layers.0.mlp.up_proj.weight'" in text
    assert "1 unexpected: 'model.layers.7.mlp.up_proj.weight'" in text
    assert "'model.layers.1.self_attn.k_proj.weight' is [32, 16] and must be [16, 32]" in text


def test_a_tied_copy_must_be_one(folder):
    def add(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(4, np.float32)

    write_tensors(folder, add)
    load_model(folder)

    def change(tensors):
        tensors["lm_head.weight"][0, 0] += 1

    write_tensors(folder, change)
    with pytest.raises(FormatError, match="tie_word_embeddings"):
        load_model(folder)


def test_a_parameter_that_is_no_float_is_refused(folder):
    def change(tensors):
        tensors["model.norm.weight"] = np.ones(32, np.int8)

    write_tensors(folder, change)
    with pytest.raises(UnsupportedError, match=r"int8 of 'model\.norm\.weight'"):
        load_model(folder)


@pytest.mark.parametrize(
    ("spoil", "error", "text"),
    [
        (lambda path: (path / "config.json").unlink(), ArgumentError, "hold config.json"),
        (lambda path: (path / "config.json").write_text("{"), FormatError, "must be JSON"),
        (
            lambda path: (path / "config.json").write_text('{"a": 1, "a": 2}'),
            FormatError,
            "every key once",
        ),
        (lambda path: (path / "model.safetensors").unlink(), ArgumentError, "hold weights"),
        (
            lambda path: (path / "model.safetensors").rename(path / "model.bin"),
            UnsupportedError,
            "pickles",
        ),
    ],
)
def test_a_broken_folder_says_what_is_wrong(folder, spoil, error, text):
    spoil(folder)
    with pytest.raises(error, match=text):
        load_model(folder)


def test_extra_layers_of_deepseek_are_left(tmp_path):
    """They predict several tokens at once and stand behind the last layer."""
    save_model(tmp_path, draw_model(CASES["deepseek_v3"]))

    def add(tensors):
        tensors["model.layers.2.eh_proj.weight"] = np.zeros((3, 3), np.float32)

    write_tensors(tmp_path, add)
    load_model(tmp_path)


def peer_logits(folder: Path, tokens: np.ndarray) -> np.ndarray:
    """float32 [B, T, V], by transformers on the CPU."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.tensor(tokens)).logits.numpy()


PEER_CASES = CASES | {
    f"llama-{name}": dataclasses.replace(CASES["llama"], rope=rope) for name, rope in ROPES.items()
}
PEER_CASES |= {
    f"deepseek_v3-{name}": dataclasses.replace(
        CASES["deepseek_v3"], rope=dataclasses.replace(rope, interleaved=True)
    )
    for name, rope in ROPES.items()
    if rope.kind == "yarn"
}


@pytest.mark.slow
@NEEDS_TRANSFORMERS
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", PEER_CASES)
def test_logits_are_those_of_transformers(name, tmp_path):
    """Largest difference over largest logit; positions reach beyond every stretch's border."""
    save_model(tmp_path, draw_model(PEER_CASES[name]), shard_nbytes_max=40_000)
    tokens = np.random.default_rng(1).integers(0, 64, (2, 24))
    got, _ = nnx.jit(lambda model, tokens: model(tokens))(load_model(tmp_path), tokens)
    want = peer_logits(tmp_path, tokens)
    assert np.abs(np.asarray(got) - want).max() < 1e-4 * np.abs(want).max()


@pytest.mark.slow
@NEEDS_TRANSFORMERS
@pytest.mark.filterwarnings("default")
def test_weights_of_yarn_are_those_of_transformers(tmp_path):
    """As DeepSeek-V3 has it: the magnitude goes into the softmax."""
    save_model(tmp_path, draw_model(CASES["deepseek_v3"]))
    values = json.loads((tmp_path / "config.json").read_text())
    values["rope_scaling"] = {
        "type": "yarn",
        "factor": 4.0,
        "mscale": 0.7,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 8,
    }
    values["max_position_embeddings"] = 32
    (tmp_path / "config.json").write_text(json.dumps(values))
    tokens = np.random.default_rng(1).integers(0, 64, (2, 24))
    got, _ = nnx.jit(lambda model, tokens: model(tokens))(load_model(tmp_path), tokens)
    want = peer_logits(tmp_path, tokens)
    assert np.abs(np.asarray(got) - want).max() < 1e-4 * np.abs(want).max()
