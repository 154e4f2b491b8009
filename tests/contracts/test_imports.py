"""Importing the packages does nothing, layers hold, and both checks can fail."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pallas_kernels", "parallel", "zipjax")

# Imports each package while every door to a device is nailed shut and every open file is noted.
PROBE = """
import importlib, os, sys

import jax
import jax._src.xla_bridge as bridge

touched = []
def shut(*args, **kwargs):
    touched.append("device")
    raise RuntimeError("a device was touched at import")
bridge.backends = bridge.get_backend = jax.devices = jax.local_devices = shut

def on_event(event, args):
    if event == "open" and isinstance(args[0], str):
        path = os.path.abspath(args[0])
        is_code = path.endswith((".py", ".pyc", ".so", ".pth", ".pyi")) or "__pycache__" in path
        is_ours = path.startswith({root!r}) and not path.startswith(sys.prefix)
        if is_ours and not is_code:
            touched.append(path)
before = dict(os.environ)
sys.addaudithook(on_event)
for name in {packages!r}:
    importlib.import_module(name)
if dict(os.environ) != before:
    touched.append("environment")
if bridge._backends:
    touched.append("backend")
print(touched)
sys.exit(bool(touched))
"""


def probe(packages: tuple[str, ...], root: Path, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    code = textwrap.dedent(PROBE).format(packages=packages, root=str(root))
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, timeout=120
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_import_touches_nothing(package):
    result = probe((package,), ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("body", "caught"),
    [
        ("import jax.numpy as jnp\nX = jnp.zeros(1)", "device"),
        ("import jax\nX = jax.devices()", "device"),
        ("import os\nos.environ['XLA_FLAGS'] = ''", "environment"),
        ("X = open(__file__.replace('__init__.py', 'data.bin')).read()", "data.bin"),
    ],
)
def test_the_probe_catches(tmp_path, body, caught):
    """The meta-test: a package that does touch something fails the check above."""
    package = tmp_path / "guilty"
    package.mkdir()
    (package / "data.bin").write_text("x")
    (package / "__init__.py").write_text(body)
    result = probe(("guilty",), tmp_path, cwd=tmp_path)
    assert result.returncode != 0
    assert caught in result.stdout + result.stderr


def test_the_packages_are_ours():
    """`parallel` is a common name: another package of that name must not shadow it."""
    for package in PACKAGES:
        assert Path(__import__(package).__file__).parent == ROOT / package


def lint_imports(root: Path) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)


def test_layers_hold():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("where", "statement"),
    [
        ("pallas_kernels/format/spec.py", "import parallel"),
        ("pallas_kernels/codecs/raw.py", "import jax"),
        ("pallas_kernels/ops/encode/api.py", "import pallas_kernels.ops.decode"),
        ("parallel/mesh.py", "import pallas_kernels.tensor"),
        ("parallel/mesh.py", "import flax"),
        ("zipjax/utils.py", ""),
    ],
)
def test_the_layers_catch(tmp_path, where, statement):
    """The meta-test: each kind of contract fails on a planted import."""
    import shutil

    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / where
    text = path.read_text() if path.exists() else ""
    path.write_text(f"{text}\n{statement}\n")
    result = lint_imports(tmp_path)
    assert result.returncode != 0, f"planted in {where}: {statement}\n{result.stdout}"
