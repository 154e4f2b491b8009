"""Reading files runs no code, unpickles nothing, and touches no other file."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import zipjax
from tests.reliability import forgeries
from tests.reliability.samples import raw_sample

ROOT = Path(__file__).parents[2]

# Everything is read once before the hook listens, so that what is imported late is imported now.
_SCRIPT = """
import sys
from pathlib import Path
import zipjax
from zipjax.files.tensor_file import open_tensors

folder = Path(sys.argv[1])
events = []

def read_all():
    for path in sorted(folder.iterdir()):
        try:
            if path.suffix == ".zipj":
                zipjax.verify(path)
                zipjax.inspect(path)
            for source in open_tensors(path).sources:
                source.read()
        except zipjax.ZipError:
            continue

read_all()
listening = True

def hook(event, args):
    if not listening:
        return
    if event == "open":
        # `load` goes through os.open, which reports (path, None, flags); nothing may be written.
        path = Path(str(args[0]))
        if path.parent != folder or args[2] & 3:
            events.append((event, str(args[0])))
    elif event.split(".")[0] in ("pickle", "exec", "compile", "import", "socket", "subprocess",
                                 "ctypes", "marshal", "shutil", "urllib") or event == "os.system":
        # `ast.literal_eval` compiles to a tree, which runs nothing.
        if not (event == "compile" and args[1] == "<unknown>"):
            events.append((event, repr(args)[:100]))

sys.addaudithook(hook)
read_all()
listening = False
print(events)
"""


def _run(folder: Path, script: str = _SCRIPT) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _fill(folder: Path) -> None:
    """Good files of every kind, and one of every kind of bad ones."""
    tree = {"a": np.arange(5), "w": np.random.default_rng(0).normal(size=9999).astype(np.float32)}
    zipjax.save(folder / "good.zipj", tree)
    np.savez(folder / "good.npz", **tree)
    np.savez(folder / "pickle.npz", a=np.array([print], object))
    bad = [
        *forgeries.hostile_names(),
        *forgeries.hostile_duplicates(),
        *forgeries.unknown_values(),
        *forgeries.hostile_sizes(),
    ]
    for number, (_, data) in enumerate(bad):
        (folder / f"bad{number}.zipj").write_bytes(data)
    (folder / "cut.zipj").write_bytes(raw_sample()[:-1])


def test_reading_runs_no_code_and_opens_no_other_file(tmp_path):
    _fill(tmp_path)
    assert _run(tmp_path) == "[]"


def test_the_hook_would_hear_it(tmp_path):
    """The test above can fail: a reader that unpickles or looks elsewhere is heard."""
    zipjax.save(tmp_path / "good.zipj", {"a": np.arange(3)})
    bad = "import pickle; pickle.loads(pickle.dumps(print)); open('pyproject.toml')"
    spoilt = _SCRIPT.replace("listening = False", bad)
    heard = _run(tmp_path, spoilt)
    assert "pickle.find_class" in heard and "pyproject.toml" in heard


def test_no_source_file_mentions_pickle_or_eval():
    for path in (ROOT / "zipjax" / "files").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("import pickle", "allow_pickle=True", " eval(", " exec(", "np.load("):
            assert word not in text, f"{path.name}: {word}"
