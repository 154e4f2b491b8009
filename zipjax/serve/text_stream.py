"""Tokens to text while they come: bytes of a character may be spread over several tokens."""

from collections.abc import Sequence

from zipjax.models import Tokenizer

_UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # What tokenizers write for half a character.
_NUM_CONTEXT = 8  # More tokens than a character has bytes.


class TextStream:
    """The text of one sequence, piece by piece.

        stream = TextStream(tokenizer, after=prompt)
        for token in tokens:
            print(stream.add(token), end="")
        print(stream.finish())

    The pieces together are what the tokens add to the text of the prompt.
    """

    def __init__(self, tokenizer: Tokenizer, *, after: Sequence[int] = ()):
        """Begin after the tokens of a prompt, of which nothing is shown."""
        self._tokenizer = tokenizer
        # Decoders strip the space before a first word, so tokens are decoded behind those that
        # were shown last, and what these give alone is taken away.
        self._context = list(after)[-_NUM_CONTEXT:]
        self._waiting: list[int] = []

    def add(self, token: int) -> str:
        """The text that became certain with `token`; often of one token, sometimes none."""
        self._waiting.append(token)
        piece = self._piece()
        if piece.endswith(_UNFINISHED) and len(self._waiting) <= _NUM_CONTEXT:
            return ""
        self._context, self._waiting = self._waiting, []
        return piece

    def finish(self) -> str:
        """What is left, when no more tokens come."""
        piece = self._piece() if self._waiting else ""
        self._context, self._waiting = [], []
        return piece

    def _piece(self) -> str:
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode(self._context + self._waiting)[len(before) :]
