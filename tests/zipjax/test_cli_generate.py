"""`zipjax generate`: what it prints where, and what --compare finds."""

import dataclasses
import json

import pytest

from tests.zipjax.model_cases import CASES
from tests.zipjax.serve_cases import byte_tokenizer, write_folder
from zipjax.cli import generation_run, main
from zipjax.models import Tokenizer, load_model
from zipjax.serve import Completion, Sampling, generate

BYTES = dataclasses.replace(CASES["llama-tied"], vocab_size=256)
TOKENIZER = Tokenizer(byte_tokenizer())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    write_folder(path, BYTES)
    return path


def run(folder, *arguments) -> int:
    return main(["generate", str(folder), "--max-new-tokens", "6", *arguments])


def text_after(folder, *prompts, **more) -> list[Completion]:
    tokens = [TOKENIZER.encode(prompt) for prompt in prompts]
    return generate(load_model(folder), tokens, max_new_tokens=6, **more)


def test_text_goes_to_stdout_and_talk_to_stderr(folder, capsys):
    assert run(folder, "--prompt", "ab") == 0
    said = capsys.readouterr()
    (want,) = text_after(folder, "ab")
    assert said.out == TOKENIZER.decode([*TOKENIZER.encode("ab"), *want.tokens])[2:] + "\n"
    assert said.err.startswith("plain: 6 tokens, the first after ")
    assert " tokens/s; model of " in said.err and said.err.count("\n") == 1


def test_several_prompts_come_with_their_numbers(folder, capsys):
    assert run(folder, "--prompt", "ab", "c") == 0
    out = capsys.readouterr().out
    assert out.startswith("[0] ab") and "\n[1] c" in out


def test_json_is_all_that_goes_to_stdout(folder, capsys):
    drawing = ["--temperature", "1.5", "--top-k", "9", "--top-p", "0.9", "--seed", "3"]
    assert run(folder, "--prompt", "ab", "c", "--json", "--quiet", *drawing) == 0
    said = capsys.readouterr()
    data = json.loads(said.out)
    assert said.err == ""
    sampling = Sampling(temperature=1.5, top_k=9, top_p=0.9, seed=3)
    for got, want in zip(
        data["completions"], text_after(folder, "ab", "c", sampling=sampling), strict=True
    ):
        assert tuple(got["tokens"]) == want.tokens
        assert got["stop_token"] is None
        assert got["prompt_tokens"] == TOKENIZER.encode(got["prompt"])
    assert data["form"] == "plain" and data["num_new_tokens"] == 12
    assert data["tokens_per_s"] > 0 and data["model_nbytes"] > 0


def test_the_folder_says_how_and_where_to_stop(tmp_path, capsys):
    write_folder(tmp_path / "greedy", BYTES)
    (want,) = text_after(tmp_path / "greedy", "ab")
    stop = want.tokens[2]
    write_folder(tmp_path / "own", BYTES, eos_token_id=[255, stop])
    assert run(tmp_path / "own", "--prompt", "ab", "--json") == 0
    (got,) = json.loads(capsys.readouterr().out)["completions"]
    assert tuple(got["tokens"]) == want.tokens[: want.tokens.index(stop)]
    assert got["stop_token"] == stop


@pytest.fixture
def small(tmp_path, capsys):
    """A folder whose matrices become smaller, compressed."""
    feed_forward = BYTES.feed_forward[:1]
    config = dataclasses.replace(BYTES, width=128, windows=(None,), feed_forward=feed_forward)
    write_folder(tmp_path / "model", config)
    assert main(["compress", str(tmp_path / "model"), str(tmp_path / "small"), "--quiet"]) == 0
    capsys.readouterr()
    return tmp_path / "small"


@pytest.mark.slow
def test_compare_says_that_nothing_changed(small, capsys):
    assert run(small, "--prompt", "ab", "c", "--compare", "--json") == 0
    said = capsys.readouterr()
    data = json.loads(said.out)
    found = data["compare"]
    assert found["identical"] is True and found["same_tokens"] is True
    assert (found["num_steps"], found["num_logits"]) == (6, 6 * 2 * 256)
    assert (data["form"], found["plain"]["form"]) == ("compressed", "plain")
    assert data["model_nbytes"] < found["plain"]["model_nbytes"]
    assert "identical: all 3,072 logits of 6 steps on bits, and the same tokens" in said.err


def test_compare_fails_where_one_bit_differs(folder, monkeypatch, capsys):
    """The check itself is checked: a difference is planted in the plain model."""

    def load(*args, compressed, **more):
        model = load_model(*args, compressed=compressed, **more)
        if not compressed:
            scale = model.norm.scale
            scale.set_value(scale[...].at[0].multiply(1.001))
        return model

    monkeypatch.setattr(generation_run, "load_model", load)
    assert run(folder, "--prompt", "ab", "--compare", "--json") == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["compare"]["first_difference"] == 0
    assert "DIFFERENT: logits from step 0 on" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top-k", "3"], "--top-k and --top-p need a temperature"),
        (["--temperature", "-1"], "temperature must be positive; got -1.0"),
        (["--temperature", "1", "--top-p", "2"], "top_p must be above 0 and at most 1; got 2.0"),
        (["--max-new-tokens", "0"], "must be at least 1; got 0"),
    ],
)
def test_what_cannot_be_gets_one_line_and_exit_code_2(folder, arguments, message, capsys):
    assert run(folder, "--prompt", "ab", *arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert message in said.err


def test_a_folder_without_a_tokenizer_is_refused(tmp_path, capsys):
    write_folder(tmp_path / "model", BYTES)
    (tmp_path / "model" / "tokenizer.json").unlink()
    assert run(tmp_path / "model", "--prompt", "ab") == 2
    assert "must hold tokenizer.json" in capsys.readouterr().err
