"""What the doors offer: a stored list, documented."""

import importlib
import inspect
from pathlib import Path

import pytest

STORED = Path(__file__).with_name("public_names.txt")
PACKAGES = ("pallas_kernels", "parallel", "zipjax")


def public_names(package: str) -> list[str]:
    """Names of a door that are no modules, in order."""
    door = importlib.import_module(package)
    return sorted(
        name
        for name, value in vars(door).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    )


def test_doors_offer_what_is_stored():
    """A name is public when this list says so; changing it is a change for users (CHANGELOG.md)."""
    offered = [f"{package}.{name}" for package in PACKAGES for name in public_names(package)]
    assert offered == STORED.read_text().split()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package):
    door = importlib.import_module(package)
    for name in public_names(package):
        value = getattr(door, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue  # a constant, or a type alias, which cannot have one
        doc = inspect.getdoc(value) or ""
        assert doc, f"{package}.{name} has no docstring"
        if inspect.isfunction(value):
            missing = [
                parameter
                for parameter in inspect.signature(value).parameters
                if len(inspect.signature(value).parameters) > 1
                and f"{parameter}:" not in doc
                and f"**{parameter}:" not in doc
            ]
            assert not missing, f"{package}.{name} does not say what {missing} are"


def test_the_version_is_one():
    import zipjax

    assert zipjax.__version__ == importlib.import_module("pallas_kernels").__version__
