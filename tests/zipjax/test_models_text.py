"""Tokenizers and defaults for generation, as folders bring them."""

import json

import pytest

from pallas_kernels import ArgumentError, FormatError
from zipjax.models import GenerationDefaults, load_generation_defaults, load_tokenizer


@pytest.fixture
def folder(tmp_path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["a model of a model", "the model"], trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_text_comes_back(folder):
    tokenizer = load_tokenizer(folder)
    text = "the model, naïve 模型"
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert max(tokens) < tokenizer.vocab_size
    end = tokenizer.token("<end>")
    assert tokenizer.decode([*tokens, end]) == text
    assert tokenizer.decode([*tokens, end], special=True) == text + "<end>"
    assert tokenizer.token("<nothing>") is None


def test_a_folder_without_a_tokenizer_says_so(tmp_path):
    with pytest.raises(ArgumentError, match=r"must hold tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FormatError, match="must be a tokenizer"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("generation", "config", "want"),
    [
        (None, None, GenerationDefaults()),
        (
            None,
            {"eos_token_id": 2, "bos_token_id": 1},
            GenerationDefaults(stop_tokens=(2,), start_token=1),
        ),
        (
            {"eos_token_id": [3, 4], "do_sample": True, "temperature": 0.6, "top_k": 20},
            {"eos_token_id": 2},
            GenerationDefaults(stop_tokens=(3, 4), sampled=True, temperature=0.6, top_k=20),
        ),
        ({"top_k": 0, "top_p": 0.9}, None, GenerationDefaults(top_p=0.9)),
    ],
)
def test_defaults(tmp_path, generation, config, want):
    for name, values in (("generation_config.json", generation), ("config.json", config)):
        if values is not None:
            (tmp_path / name).write_text(json.dumps(values))
    assert load_generation_defaults(tmp_path) == want


def test_defaults_that_are_none_are_refused(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"temperature": "warm"}')
    with pytest.raises(FormatError, match=r"temperature in generation_config\.json"):
        load_generation_defaults(tmp_path)
