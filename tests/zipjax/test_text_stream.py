"""Text while it comes: whole characters, and in the end all of it."""

import pytest

from tests.zipjax.serve_cases import byte_tokenizer
from zipjax.models import Tokenizer
from zipjax.serve import TextStream


@pytest.mark.parametrize("prompt", ["", "Höhe "])
def test_pieces_are_the_text(prompt):
    tokenizer = Tokenizer(byte_tokenizer())
    text = "naïve 日本 🙂, then \N{REPLACEMENT CHARACTER} itself"
    stream = TextStream(tokenizer, after=tokenizer.encode(prompt))
    pieces = [stream.add(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) + stream.finish() == text
    assert pieces[:4] == ["n", "a", "", "ï"]


def test_bytes_that_are_no_character_come_out():
    tokenizer = Tokenizer(byte_tokenizer())
    tokens = tokenizer.encode("é")[:1] * 20 + tokenizer.encode("a")
    stream = TextStream(tokenizer)
    pieces = [stream.add(token) for token in tokens]
    assert any(pieces[:10])
    assert "".join(pieces) + stream.finish() == tokenizer.decode(tokens)
    assert stream.finish() == ""
