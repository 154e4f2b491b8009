"""Prompts, and a folder with a tiny model and its tokenizer."""

import json
from pathlib import Path

import numpy as np
from flax import nnx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.zipjax.model_cases import CASES, draw_model
from zipjax.models import save_model

PROMPTS = [[5, 6, 7], [(11 * i) % 64 for i in range(20)], [9]]

forward = nnx.jit(lambda model, tokens: model(tokens)[0])


def naive_greedy(model, prompt: list[int], num_new: int, *, room: int = 40) -> tuple[int, ...]:
    """The likeliest tokens, each from the whole sequence anew and without a cache."""
    sequence = list(prompt)
    for _ in range(num_new):
        padded = np.zeros((1, room), np.int32)
        padded[0, : len(sequence)] = sequence
        logits = np.asarray(forward(model, padded))[0, len(sequence) - 1]
        sequence.append(int(logits.argmax()))
    return tuple(sequence[len(prompt) :])


def byte_tokenizer() -> Tokenizer:
    """A token for each byte, and no other: 256."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: idx for idx, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write_folder(folder: Path, config=None, **generation) -> None:
    """A model of bytes, random, with `generation_config.json` of these values."""
    save_model(folder, draw_model(config or CASES["llama-tied"]))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").write_text(json.dumps(generation))
