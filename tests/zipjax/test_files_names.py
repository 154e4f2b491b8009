"""Which tensor names are allowed."""

import pytest

from zipjax import FormatError
from zipjax.files.names import check_name, check_names
from zipjax.files.wording import did_you_mean, shown


@pytest.mark.parametrize(
    "name",
    [
        "w",
        "model.layers.0.self_attn.q_proj.weight",
        "params/dense/kernel",
        "a..b",
        "...",
        "x:0",
        "NUL",
        "with space",
        "\u91cd\u307f",
        "caf\u00e9",
        "a" * 1024,
        "['a'][0]",
    ],
)
def test_ordinary_names_are_allowed(name):
    check_name(name)


@pytest.mark.parametrize(
    "name, text",
    [
        ("", "empty"),
        ("a\0", "control characters"),
        ("a\n", "control characters"),
        ("\ud800", "control characters"),
        ("a" * 1025, "1024 bytes"),
        ("/a", "folder"),
        ("C:\\a", "folder"),
        ("a/../b", "folder"),
        ("..", "folder"),
    ],
)
def test_names_that_cannot_be_meant_are_refused(name, text):
    with pytest.raises(FormatError, match=text):
        check_name(name)


def test_one_text_in_two_spellings_is_refused_and_case_is_not():
    check_names(["w", "W"])
    with pytest.raises(FormatError, match="respelt"):
        check_names(["caf\u00e9", "cafe\u0301"])
    with pytest.raises(FormatError, match="twice"):
        check_names(["w", "w"])


def test_shown_names_are_short_and_printable():
    assert shown("a\x1b[2J\u202e") == "'a\\x1b[2J\\u202e'"
    assert len(shown("x" * 10_000)) == 80


def test_a_near_name_is_offered():
    assert did_you_mean("layer.0.wight", ["layer.0.weight"]) == "did you mean 'layer.0.weight'?"
    assert did_you_mean("zzz", ["layer.0.weight"]) == ""
