"""Text to tokens and back, by a model's own `tokenizer.json`."""

import os
from pathlib import Path
from typing import Any

from pallas_kernels import ArgumentError, FormatError
from zipjax.files.wording import shown

TOKENIZER_NAME = "tokenizer.json"


class Tokenizer:
    """A tokenizer read by the package `tokenizers`.

    Attributes:
        vocab_size: number of tokens, those added later included.
    """

    def __init__(self, tokenizer: Any):
        """Wrap a `tokenizers.Tokenizer`."""
        self._tokenizer = tokenizer
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """The tokens of a text.

        Args:
            text: anything.
            special: whether to put the tokens around it that the model was trained with, such as
                that for the beginning of a text.
        """
        return list(self._tokenizer.encode(text, add_special_tokens=special).ids)

    def decode(self, tokens: list[int], *, special: bool = False) -> str:
        """The text of tokens.

        Args:
            tokens: in [0, vocab_size).
            special: whether tokens such as that for the end of a text are written out.
        """
        return self._tokenizer.decode(list(tokens), skip_special_tokens=not special)

    def token(self, text: str) -> int | None:
        """The number of one token by its text, or None."""
        return self._tokenizer.token_to_id(text)


def load_tokenizer(folder: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of a model's folder.

    Raises:
        ArgumentError: the folder has no `tokenizer.json`.
        FormatError: that file is not a tokenizer.
    """
    # A program that never sees text shall not load a library for it.
    from tokenizers import Tokenizer as Fast

    path = Path(folder) / TOKENIZER_NAME
    if not path.is_file():
        raise ArgumentError(
            f"{folder} must hold {TOKENIZER_NAME}",
            fix="give tokens instead of text, or convert the tokenizer with transformers",
        )
    try:
        return Tokenizer(Fast.from_file(os.fspath(path)))
    except Exception as error:  # The library raises `Exception` itself.
        raise FormatError(f"{path} must be a tokenizer", got=shown(str(error))) from None
