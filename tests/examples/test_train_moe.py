"""The command line of the example: what it prints, keeps and refuses. One device, in process."""

import json

import pytest

from tests.examples.train_moe_cases import TINY, load_script


@pytest.fixture(scope="module")
def script():
    return load_script()


@pytest.fixture
def main(script, monkeypatch):
    """`main(*arguments)`, with the devices of this process."""
    monkeypatch.setattr(script.engine, "set_up_devices", lambda **_: None)
    return lambda *arguments: script.main([*TINY, *arguments])


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "rhyme.txt"
    path.write_text("the cat sat on the mat and the rat sat on the cat\n" * 200)
    return path


def test_a_run_says_and_keeps_how_it_went(main, text, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(f"--data={text}", f"--out={out}", "--steps=10") == 0

    said = capsys.readouterr()
    for row in ("first loss", "last loss", "validation loss", "sent in all", "tokens/s", "digest"):
        assert row in said.out
    assert "rhyme.txt: 1 files" in said.err
    assert "step 5/10: loss" in said.err
    assert {path.name for path in out.iterdir()} == {
        "checkpoints",
        "config.json",
        "loss.png",
        "metrics.jsonl",
    }
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    config = json.loads((out / "config.json").read_text())
    assert (config["steps"], config["model"]["width"]) == (10, 16)
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 10


def test_json_is_all_that_goes_to_stdout(main, text, tmp_path, capsys):
    assert main(f"--data={text}", f"--out={tmp_path}", "--steps=2", "--json", "--quiet") == 0
    said = capsys.readouterr()
    figures = json.loads(said.out)
    assert figures["steps"] == [0, 2]
    assert figures["validation_loss"] > 0
    assert said.err == ""


def test_stopping_and_resuming_gives_the_digest_of_one_run(main, text, tmp_path, capsys):
    def digest(folder, *arguments):
        common = (f"--data={text}", f"--out={tmp_path / folder}", "--json", "--quiet")
        assert main("--steps=6", *common, *arguments) == 0
        return json.loads(capsys.readouterr().out)["digest"]

    straight = digest("one")
    assert digest("two", "--stop-after=2") != straight
    assert digest("two", "--resume") == straight


def test_check_says_that_nothing_changed(main, text, tmp_path, capsys):
    assert main(f"--data={text}", f"--out={tmp_path}", "--steps=2", "--check") == 0
    assert "Bit-identical: all" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_check_fails_where_one_bit_differs(main, script, text, monkeypatch, capsys):
    """The check itself is checked: a difference is planted."""
    compare = script.engine.compare_states

    def with_one_bit_flipped(left, right):
        norm = right.params["norm"]["scale"]
        norm.set_value(norm[...].at[0].multiply(-1))
        return compare(left, right)

    monkeypatch.setattr(script.engine, "compare_states", with_one_bit_flipped)
    assert main(f"--data={text}", "--steps=1", "--check") == 1
    assert "DIFFERENT after 1 steps: 1 of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps=0"], "steps must be at least 1; got 0"),
        (["--data=nowhere"], "the text must exist; got nowhere"),
        (["--length=9000"], "must be longer than length=9000"),
        (["--resume", "--out=nothing/here"], "there must be a checkpoint to resume from"),
        (["--resume", "--out=None"], "to resume a run there must be a folder"),
    ],
)
def test_what_cannot_be_gets_one_line_and_exit_code_2(main, text, arguments, message, capsys):
    assert main(f"--data={text}", *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]


def test_resuming_with_another_setting_is_refused(main, text, tmp_path, capsys):
    common = (f"--data={text}", f"--out={tmp_path}", "--quiet")
    assert main("--steps=1", *common) == 0
    assert main("--steps=2", "--resume", *common) == 2
    assert "steps=2 instead of 1" in capsys.readouterr().err


def test_binary_data_is_text_too(main, tmp_path, capsys):
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(256)) * 40)
    assert main(f"--data={path}", "--steps=1", "--out=None", "--json") == 0
    assert json.loads(capsys.readouterr().out)["first_loss"] > 0
