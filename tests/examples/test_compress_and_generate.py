"""The example from text to text: a model is trained, compressed, loaded, and says the same."""

import importlib.util
import json
import sys

import pytest

from tests.examples.train_moe_cases import ROOT

SCRIPT = ROOT / "examples" / "compress_and_generate.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("compress_and_generate", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compress_and_generate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text("the cat sat on the mat and the rat sat on the cat\n" * 400)
    return path


def test_it_trains_compresses_and_says_the_same(script, text, tmp_path, capsys):
    common = [
        f"--data={text}",
        f"--out={tmp_path}",
        "--quick",
        "--prompt=the",
        "--max-new-tokens=8",
    ]
    assert script.main([*common, "--json"]) == 0
    said = capsys.readouterr()
    figures = json.loads(said.out)
    assert figures["identical"] is True
    assert figures["num_logits"] == 8 * script.QUICK.vocab_size
    plain, compressed = figures["model_nbytes"]
    assert compressed < 0.72 * plain
    assert figures["file_nbytes"][1] < 0.75 * figures["file_nbytes"][0]
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    }

    # Again, with what is there, and for people.
    assert script.main([*common, str(tmp_path / "model")]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("the") and "model in memory" in said.out
    assert "Identical: all tokens, and all" in said.out
    assert "Training" not in said.err


def test_a_folder_that_is_none_gets_one_line_and_exit_code_2(script, tmp_path, capsys):
    assert script.main([str(tmp_path / "nowhere"), f"--out={tmp_path}"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
