"""The command line: what it does, what it says and where, and its exit codes."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zipjax
from zipjax.cli import main

ROOT = Path(__file__).parents[2]
TREE = {
    "embed.weight": np.random.default_rng(0).normal(0, 0.02, (300, 64)).astype(np.float32),
    "embed.twin": np.random.default_rng(0).normal(0, 0.02, (300, 64)).astype(np.float32),
    "ids": np.arange(10),
}


@pytest.fixture
def npz(tmp_path):
    np.savez(tmp_path / "model.npz", **TREE)
    return tmp_path / "model.npz"


@pytest.fixture
def zipj(tmp_path):
    zipjax.save(tmp_path / "model.zipj", TREE, metadata={"k": "v"})
    return tmp_path / "model.zipj"


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_compress_and_back(npz, tmp_path, capsys):
    assert run("compress", npz) == 0
    out, err = capsys.readouterr()
    assert "embed.weight" in out and "float32" in out and "300x64" in out
    assert "triple_bitmap" in out and "= embed.weight" in out
    assert err.startswith("Compressed 3 tensors, 153.7 kB to ")
    assert ", verified, in " in err and err.count("\n") == 1
    assert run("decompress", tmp_path / "model.zipj", tmp_path / "back.npz") == 0
    assert capsys.readouterr().err.startswith("Decompressed 3 tensors, ")
    with np.load(tmp_path / "back.npz") as back:
        for name, want in TREE.items():
            assert back[name].tobytes() == want.tobytes()


def test_decompress_makes_safetensors_by_default(zipj, tmp_path):
    assert run("decompress", zipj) == 0
    assert (tmp_path / "model.safetensors").exists()


def test_json_is_all_there_is_on_stdout(npz, zipj, tmp_path, capsys):
    commands = [
        ("compress", npz, tmp_path / "a.zipj"),
        ("compress", npz, "--dry-run"),
        ("inspect", zipj),
        ("verify", zipj),
        ("decompress", zipj, tmp_path / "a.npz"),
    ]
    for command in commands:
        assert run(*command, "--json", "--quiet") == 0
        out, err = capsys.readouterr()
        value = json.loads(out)
        assert err == ""
        assert value["raw_nbytes"] == 153_680
        assert [tensor["name"] for tensor in value["tensors"]] == list(TREE)


def test_quiet_is_quiet(zipj, capsys):
    assert run("inspect", zipj, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_inspect_shows_names_and_metadata(zipj, capsys):
    assert run("inspect", zipj, "--names", "ids") == 0
    out, err = capsys.readouterr()
    assert "ids" in out and "embed.weight" not in out
    assert "metadata 'k': 'v'" in err and "3 tensors, 153.7 kB in " in err


def test_names_are_shown_as_they_are(tmp_path, capsys):
    zipjax.save(tmp_path / "a.zipj", {"[bold]w[/bold]": np.arange(3), "[0]": np.arange(4)})
    assert run("inspect", tmp_path / "a.zipj") == 0
    out = capsys.readouterr().out
    assert "[bold]w[/bold]" in out and "[0]" in out


def test_a_dry_run_writes_nothing(npz, zipj, tmp_path, capsys):
    before = sorted(tmp_path.iterdir())
    assert run("compress", npz, tmp_path / "new.zipj", "--dry-run") == 0
    assert capsys.readouterr().err.startswith("Would compress 3 tensors, 153.7 kB to ")
    assert run("decompress", zipj, tmp_path / "new.npz", "--dry-run") == 0
    assert capsys.readouterr().err.startswith("Would decompress 3 tensors, ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_dry_run_is_close(npz, tmp_path, capsys):
    assert run("compress", npz, "--dry-run", "--json") == 0
    estimated = json.loads(capsys.readouterr().out)["tensors"]
    assert run("compress", npz, "--json") == 0
    made = json.loads(capsys.readouterr().out)["tensors"]
    for want, got in zip(made, estimated, strict=True):
        if want["same_as"] is None:
            assert got["nbytes"] == pytest.approx(want["nbytes"], rel=0.02)


def test_files_are_written_over_only_when_told(npz, zipj, tmp_path, capsys):
    assert run("compress", npz, zipj) == 2
    assert "exists; write elsewhere, or pass --force" in capsys.readouterr().err
    assert run("compress", npz, zipj, "--force") == 0
    assert run("decompress", zipj, npz) == 2
    assert run("decompress", zipj, npz, "--force") == 0
    assert run("compress", npz, tmp_path) == 2
    assert run("verify", zipj, "--against", npz) == 0


def test_verify_against_the_original(npz, zipj, tmp_path, capsys):
    assert run("verify", zipj, "--against", npz) == 0
    assert f"Verified 3 tensors, 153.7 kB, equal to {npz}, in " in capsys.readouterr().err
    np.savez(tmp_path / "other.npz", **(TREE | {"ids": np.arange(10) + 1}))
    assert run("verify", zipj, "--against", tmp_path / "other.npz") == 1
    err = capsys.readouterr().err
    assert "'ids' differs in 10 of 80 bytes" in err and "1 not as in" in err


@pytest.mark.parametrize("command", ["inspect", "verify", "decompress"])
@pytest.mark.parametrize(
    "spoil, text",
    [
        (lambda data: b"", "an empty file"),
        (lambda data: b"PK\x03\x04" + bytes(100), "no .zipj file"),
        (lambda data: data[:-1], "the last 1 bytes are missing"),
        (lambda data: data[:30], "truncated"),
        (lambda data: data + b"x", "remove the last 1 bytes"),
        (lambda data: data[:8] + b"\x02" + data[9:], "got version 2"),
        (lambda data: data[:-3] + b"x" + data[-2:], "damaged"),
    ],
)
def test_broken_files_get_one_clear_line_and_exit_code_2(zipj, capsys, command, spoil, text):
    zipj.write_bytes(spoil(zipj.read_bytes()))
    assert run(command, zipj) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("zipjax: ")
    assert text in err and "Traceback" not in err
    assert not zipj.with_suffix(".safetensors").exists()


@pytest.mark.parametrize("command", ["verify", "decompress"])
def test_damaged_tensors_are_named(zipj, capsys, command):
    data = bytearray(zipj.read_bytes())
    data[data.index(TREE["ids"].tobytes())] ^= 1
    zipj.write_bytes(data)
    assert run(command, zipj) == 2
    err = capsys.readouterr().err
    assert "tensor 'ids' is damaged" in err and err.count("\n") == 1
    assert run("inspect", zipj) == 0


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("compres", "a"), "did you mean 'compress'?"),
        (("compress", "nobody.npz"), "nobody.npz: No such file or directory"),
        (("compress", "pyproject.toml"), "must end in .safetensors or .npz or .zipj"),
        (("compress", "model.safetensor"), "did you mean '.safetensors'?"),
        (("inspect", "nobody.zipj"), "nobody.zipj: No such file"),
        (("inspect", "docs"), "docs must hold .zipj files"),
        (("verify", "pyproject.toml"), "must start with 89 5a 49 50"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(capsys, monkeypatch, arguments, text):
    monkeypatch.chdir(ROOT)
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and text in err and err.count("\n") == 1


def test_a_misspelt_tensor_is_offered(zipj, capsys):
    assert run("inspect", zipj, "--names", "embed.wight") == 2
    assert "did you mean 'embed.weight'?" in capsys.readouterr().err


def test_a_container_is_not_compressed_again(zipj, npz, capsys):
    assert run("compress", zipj) == 2
    assert "must not be compressed yet" in capsys.readouterr().err
    assert run("compress", npz, "out.bin") == 2
    assert "must end in .zipj" in capsys.readouterr().err
    assert run("decompress", zipj, "out.bin") == 2
    assert "must end in .safetensors or .npz" in capsys.readouterr().err


def test_help_and_usage(capsys):
    assert run("--help") == 0
    assert "Exit codes: 0 done, 1 a check failed, 2 an error" in capsys.readouterr().out
    assert run() == 0
    assert run("compress") == 2
    assert run("compress", "a.npz", "--frce") == 2
    assert "--force" in capsys.readouterr().err


def test_what_does_not_verify_does_not_take_its_place(npz, tmp_path, monkeypatch, capsys):
    def spoil(path, **options):
        raise zipjax.ChecksumError("spoilt")

    (tmp_path / "model.zipj").write_bytes(b"old")
    monkeypatch.setattr("zipjax.files.convert.verify", spoil)
    assert run("compress", npz, "--force") == 2
    assert (tmp_path / "model.zipj").read_bytes() == b"old"
    assert run("compress", npz, "--force", "--no-verify") == 0
    assert "verified" not in capsys.readouterr().err


def test_an_interrupt_is_no_traceback(npz, tmp_path, monkeypatch, capsys):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("zipjax.files.saving.compress", interrupt)
    assert run("compress", npz) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def _run_on_a_terminal(*arguments: object, **environment: str) -> str:
    """Run the command with stderr on a terminal and give what that shows."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "zipjax.cli", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=follower,
        cwd=ROOT,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"} | environment,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            data = os.read(leader, 4096)
        except OSError:  # The other end is closed.
            break
        if not data:
            break
        shown += data
    os.close(leader)
    assert child.wait() == 0
    return shown.decode()


def test_the_bar_is_for_terminals_and_can_be_switched_off(npz, tmp_path):
    shown = _run_on_a_terminal("compress", npz, tmp_path / "a.zipj")
    assert "compressing" in shown and "\x1b[" in shown
    for flag in ("--no-progress", "--quiet"):
        assert "compressing" not in _run_on_a_terminal("compress", npz, "--force", flag)
    assert "compressing" not in _run_on_a_terminal("compress", npz, "--force", TERM="dumb")


def test_no_color_is_honoured(npz, tmp_path):
    shown = _run_on_a_terminal("compress", npz, tmp_path / "a.zipj", NO_COLOR="1")
    assert "\x1b[3" not in shown and "\x1b[38" not in shown
    assert "Compressed 3 tensors" in shown


def test_a_reader_that_leaves_is_no_error(zipj):
    command = f"{sys.executable} -m zipjax.cli inspect {zipj} --json"
    script = f"{command} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "Traceback" not in done.stderr
