"""JSON without what a file format may not leave open."""

import gc

import pytest

from zipjax import FormatError
from zipjax.files.strict_json import dump_json, parse_json


def parse(text: str | bytes, **options):
    data = text.encode() if isinstance(text, str) else text
    return parse_json(data, what="the index", **options)


def test_an_object_comes_back_with_its_order():
    value = {"b": [1, {"c": '\u91cd " \\ \n'}], "a": -5}
    assert parse(dump_json(value)) == value
    assert list(parse(dump_json(value))) == ["b", "a"]


@pytest.mark.parametrize(
    "text, said",
    [
        ("[]", "must start with {"),
        (" {}", "must start with {"),
        ("\ufeff{}", "must start with {"),
        ("", "must start with {"),
        ('{"a":1,"a":1}', "'a' twice"),
        ('{"a":NaN}', "must be an integer; got 'NaN'"),
        ('{"a":-Infinity}', "must be an integer"),
        ('{"a":1.0}', "must be an integer; got '1.0'"),
        ('{"a":1e5}', "must be an integer"),
        ('{"a":' + "9" * 5000 + "}", "64 bits"),
        ('{"a":1}x', "must be JSON"),
        ('{"a"', "must be JSON"),
        (b'{"a":"\xff"}', "must be UTF-8"),
    ],
)
def test_what_is_wrong_is_said(text, said):
    with pytest.raises(FormatError) as error:
        parse(text)
    assert said in str(error.value) and "the index" in str(error.value)


def test_nesting_is_counted_outside_strings_only():
    assert parse('{"a":"[[[[\\"[[[[\\\\"}', depth_max=1) == {"a": '[[[["[[[[\\'}
    assert parse('{"a":[[1]]}', depth_max=3) == {"a": [[1]]}
    with pytest.raises(FormatError, match="nest 2 deep"):
        parse('{"a":[[1]]}', depth_max=2)


def test_nesting_is_counted_across_blocks():
    text = '{"a":"' + "x" * (1 << 20) + '","b":' + "[" * 9 + "]" * 9 + "}"
    with pytest.raises(FormatError, match="nest 8 deep"):
        parse(text)
    assert len(parse(text, depth_max=10)["a"]) == 1 << 20


@pytest.mark.parametrize("enabled", [True, False])
def test_the_cycle_collector_is_left_as_it_was(enabled):
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        parse('{"a":1}')
        with pytest.raises(FormatError):
            parse('{"a":1')
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
