"""Texts from a model: batches, programs, stop tokens, and the bits of compressed ones."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pallas_kernels import ArgumentError, ZipError
from tests.zipjax.model_cases import CASES, ROPES, draw_model
from tests.zipjax.serve_cases import PROMPTS, naive_greedy
from zipjax import compress_model
from zipjax.serve import (
    Completion,
    LogitsRecord,
    Sampling,
    compare_logits,
    generate,
    generation_steps,
)
from zipjax.serve.programs import programs

NUM_NEW = 8
SIZES = {"max_new_tokens": NUM_NEW, "prefill_width": 16}


@pytest.fixture(scope="module")
def model():
    """Each token sees five, and the prompts are read in two chunks."""
    return draw_model(CASES["mistral"])


@pytest.fixture(scope="module")
def greedy(model):
    return generate(model, PROMPTS, **SIZES)


def test_a_batch_gets_what_each_prompt_gets_alone(model, greedy):
    for prompt, done in zip(PROMPTS, greedy, strict=True):
        assert generate(model, [prompt], **SIZES) == [done]
        assert done == Completion(naive_greedy(model, prompt, NUM_NEW), None)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "mistral"])
def test_every_architecture_in_a_batch_and_alone(name):
    model = draw_model(CASES[name])
    for prompt, done in zip(PROMPTS, generate(model, PROMPTS, **SIZES), strict=True):
        assert done.tokens == naive_greedy(model, prompt, NUM_NEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROPES)
def test_every_stretching_of_positions(name):
    """ "dynamic" ones depend on how much of a prompt is read at once."""
    model = draw_model(dataclasses.replace(CASES["llama"], rope=ROPES[name]))
    prompt = PROMPTS[1]
    (done,) = generate(model, [prompt], max_new_tokens=1, prefill_width=8)
    assert done.tokens == naive_greedy(model, prompt, 1, room=len(prompt))


def test_two_programs_whatever_is_asked(model):
    """Other prompts, texts of other lengths and other numbers need no other program."""
    graphdef, state = nnx.split(model)
    run = programs(graphdef, jax.tree.structure(state))

    def num_compiled_after(prompts, num_new, **sampling):
        more = {"max_new_tokens": num_new, "prefill_width": 16, "sampling": Sampling(**sampling)}
        generate(model, prompts, **more)
        return np.array([run.prefill._cache_size(), run.step._cache_size()])

    before = np.array([run.prefill._cache_size(), run.step._cache_size()])
    first = num_compiled_after(PROMPTS, NUM_NEW, temperature=2.0, top_k=60, top_p=0.9)
    assert (first - before <= 1).all()
    for num_new in (2, NUM_NEW, 30):
        for prompts in (PROMPTS, [[1], [2, 3], [4]]):
            after = num_compiled_after(prompts, num_new, top_k=num_new, top_p=0.5, seed=num_new)
            np.testing.assert_array_equal(after, first)


def test_the_cache_is_given_away(model, monkeypatch):
    caches = []
    init_cache = type(model).init_cache

    def keep(*args, **more):
        caches.append(init_cache(*args, **more))
        return caches[-1]

    monkeypatch.setattr(type(model), "init_cache", keep)
    generate(model, [[1, 2]], **SIZES)
    (cache,) = caches
    assert all(leaf.is_deleted() for layer in cache.layers for leaf in layer.values())


def test_a_stop_token_ends_its_sequence_alone(model, greedy):
    stop = greedy[0].tokens[2]
    place = greedy[0].tokens.index(stop)
    done = generate(model, PROMPTS, stop_tokens=[63, stop], **SIZES)
    assert done[0] == Completion(greedy[0].tokens[:place], stop)
    for got, want in zip(done, greedy, strict=True):
        assert got.tokens == want.tokens[: len(got.tokens)]
        assert (got.stop_token is None) == (len(got.tokens) == NUM_NEW)


def test_nothing_runs_after_the_last_stop(model, greedy):
    steps = list(generation_steps(model, PROMPTS[:1], stop_tokens=greedy[0].tokens[:1], **SIZES))
    assert len(steps) == 1
    assert steps[0].is_stop.all() and steps[0].is_new.all()


def test_steps_come_one_by_one(model, greedy):
    seen = []
    for step in generation_steps(model, PROMPTS, **SIZES):
        np.testing.assert_array_equal(np.asarray(step.logits).argmax(axis=1), step.tokens)
        assert step.is_new.all() and not step.is_stop.any()
        seen.append(step.tokens)
    assert [tuple(row) for row in np.stack(seen, axis=1).tolist()] == [d.tokens for d in greedy]


def test_drawn_texts_depend_on_the_seed_alone(model):
    def draw(prompts, seed):
        sampling = Sampling(temperature=2.0, top_k=60, top_p=0.9, seed=seed)
        return generate(model, prompts, sampling=sampling, **SIZES)

    once = draw(PROMPTS, 1)
    assert draw(PROMPTS, 1) == once
    assert draw(PROMPTS[:1], 1) == once[:1]
    assert draw(PROMPTS, 2) != once
    same = draw([[5], [5], [5]], 1)
    assert same[0] != same[1]


def test_the_likeliest_one_is_greedy(model, greedy):
    assert generate(model, PROMPTS, sampling=Sampling(top_k=1, top_p=0.9), **SIZES) == greedy


def assert_compressed_gives_the_bits_of_plain(config, rules=None):
    model = draw_model(config, dtype=jnp.bfloat16)
    records, texts = [LogitsRecord(), LogitsRecord()], []
    texts.append(generate(model, PROMPTS, on_step=records[0].add, **SIZES))
    assert any(row.compressed for row in compress_model(model, rules=rules).rows)
    texts.append(generate(model, PROMPTS, on_step=records[1].add, **SIZES))
    found = compare_logits(*records)
    assert found.identical
    assert (found.num_steps, found.num_logits) == (NUM_NEW, NUM_NEW * 3 * config.vocab_size)
    assert texts[0] == texts[1]


def wide(name, **more):
    """With matrices large enough to become smaller."""
    return dataclasses.replace(CASES[name], width=128, vocab_size=256, dtype="bfloat16", **more)


def test_a_compressed_model_gives_the_bits_of_its_plain_one():
    config = wide("mistral", feed_forward=CASES["mistral"].feed_forward[:1], windows=(5,))
    # Some matrices only: it is compiling their decoders that takes long.
    rules = {r"lm_head|.*\.(k|v|o|gate|down)_proj": "leave"}
    assert_compressed_gives_the_bits_of_plain(config, rules)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_architecture_gives_the_bits_of_its_plain_one(name):
    assert_compressed_gives_the_bits_of_plain(wide(name))


def test_one_bit_is_a_difference(model):
    records = [LogitsRecord(), LogitsRecord()]
    steps = list(generation_steps(model, PROMPTS, **SIZES))
    for record in records:
        for step in steps:
            record.add(step)
    assert compare_logits(*records).identical
    flipped = np.asarray(steps[3].logits).copy()
    flipped.view(np.uint32)[2, 5] ^= 1
    records[1] = LogitsRecord()
    for idx, step in enumerate(steps):
        records[1].add(dataclasses.replace(step, logits=flipped) if idx == 3 else step)
    found = compare_logits(*records)
    assert not found.identical and found.first_difference == 3
    records[1].digests = records[0].digests[:-1]
    assert compare_logits(*records).first_difference == NUM_NEW - 1


def test_logits_that_are_no_numbers_are_an_error():
    broken = draw_model(CASES["mistral"])
    scale = broken.norm.scale
    scale.set_value(scale[...].at[0].set(jnp.nan))
    with pytest.raises(ZipError, match="logits must be numbers; got NaN in sequence 0"):
        generate(broken, PROMPTS, **SIZES)


@pytest.mark.parametrize(
    ("prompts", "more", "message"),
    [
        ([], {}, "there must be at least one prompt"),
        ([[1], []], {}, "every prompt must be a list of tokens, and not empty; got prompt 1"),
        ([[1, 64]], {}, r"tokens must be in \[0, 64\); got 64 in prompt 0"),
        ([[1.5]], {}, "got prompt 0 of shape .1. and dtype float64"),
        ([[1]], {"max_new_tokens": 0}, "max_new_tokens and prefill_width must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(model, prompts, more, message):
    with pytest.raises(ArgumentError, match=message):
        generation_steps(model, prompts, **more)
