"""One run of `zipjax generate`: load the model in a form, let it write, and take the time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from zipjax.cli.talk import Talk, nbytes_text
from zipjax.files.model_folder import open_model_folder
from zipjax.models import CausalLM, Tokenizer, load_model
from zipjax.nn import CompressedParam
from zipjax.serve import GenerationStep, LogitsRecord, Sampling, TextStream, generate


@dataclass(frozen=True, kw_only=True)
class Task:
    """What every run of a command does alike.

    Attributes:
        folder: of the model.
        tokenizer: of the model.
        prompts: as tokens.
        max_new_tokens: for each prompt.
        sampling: None for the likeliest token.
        stop_tokens: that end a text.
        ignored_fields: of `config.json`.
        keeps_digests: whether the logits of every step are fetched and digested.
    """

    folder: Path
    tokenizer: Tokenizer
    prompts: list[list[int]]
    max_new_tokens: int
    sampling: Sampling | None
    stop_tokens: tuple[int, ...]
    ignored_fields: tuple[str, ...]
    keeps_digests: bool


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came out.

    Attributes:
        form: of the model in memory, "compressed" or "plain".
        texts: what was added to each prompt.
        tokens: the same as tokens, the stop token left out.
        stops: the tokens that ended them, or None.
        record: digests of all logits, where the task keeps them.
        model_nbytes: bytes of the model's arrays.
        first_token_s: from the prompts to the first token of each, compiling included.
        tokens_per_s: of all sequences together, after the first token; None where there is none.
    """

    form: str
    texts: list[str]
    tokens: list[tuple[int, ...]]
    stops: list[int | None]
    record: LogitsRecord
    model_nbytes: int
    first_token_s: float
    tokens_per_s: float | None

    @property
    def num_new(self) -> int:
        """Tokens of all sequences, stop tokens included."""
        return sum(map(len, self.tokens)) + sum(stop is not None for stop in self.stops)

    def figures(self) -> dict[str, Any]:
        """Size and speed, for JSON."""
        return {
            "form": self.form,
            "model_nbytes": self.model_nbytes,
            "num_new_tokens": self.num_new,
            "first_token_s": self.first_token_s,
            "tokens_per_s": self.tokens_per_s,
        }

    def sentence(self) -> str:
        """Size and speed, for people."""
        rate = "" if self.tokens_per_s is None else f", then {self.tokens_per_s:.1f} tokens/s"
        return (
            f"{self.form}: {self.num_new} tokens, the first after {self.first_token_s:.1f} s with "
            f"compiling{rate}; model of {nbytes_text(self.model_nbytes)}"
        )


def run_task(
    task: Task, talk: Talk, *, compressed: bool | None, on_text: Callable[[str], None] | None
) -> Run:
    """Load the model and go on with all prompts.

    Args:
        task: what to do.
        talk: for progress.
        compressed: the form in memory; None for that of the folder.
        on_text: gets the text of the first prompt while it comes.
    """
    model = _load(task, talk, compressed)
    listener = _Listener(task, on_text)
    form = "compressed" if jax.tree.leaves(nnx.state(model, CompressedParam)) else "plain"
    with talk.tokens(f"generating, {form}", task.max_new_tokens * len(task.prompts)) as advance:

        def on_step(step: GenerationStep) -> None:
            listener.add(step)
            advance(int(step.is_new.sum()))

        done = generate(
            model,
            task.prompts,
            max_new_tokens=task.max_new_tokens,
            sampling=task.sampling,
            stop_tokens=task.stop_tokens,
            on_step=on_step,
        )
    listener.finish()
    return Run(
        form=form,
        texts=["".join(pieces) for pieces in listener.pieces],
        tokens=[completion.tokens for completion in done],
        stops=[completion.stop_token for completion in done],
        record=listener.record,
        model_nbytes=sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model))),
        first_token_s=listener.times_s[0] - listener.start_s,
        tokens_per_s=listener.tokens_per_s(),
    )


def _load(task: Task, talk: Talk, compressed: bool | None) -> CausalLM:
    nbytes = sum(source.nbytes for source in open_model_folder(task.folder).tensors().values())
    with talk.progress("loading", nbytes) as advance:
        return load_model(
            task.folder,
            compressed=compressed,
            ignored_fields=task.ignored_fields,
            on_bytes=advance,
        )


class _Listener:
    """Takes down what happens while it happens."""

    def __init__(self, task: Task, on_text: Callable[[str], None] | None):
        self._streams = [TextStream(task.tokenizer, after=prompt) for prompt in task.prompts]
        self._on_text = on_text
        self.pieces: list[list[str]] = [[] for _ in task.prompts]
        self.record = LogitsRecord()
        self._keeps_digests = task.keeps_digests
        self.times_s: list[float] = []
        self._num_later = 0
        self.start_s = time.perf_counter()

    def add(self, step: GenerationStep) -> None:
        if self.times_s:
            self._num_later += int(step.is_new.sum())
        self.times_s.append(time.perf_counter())
        if self._keeps_digests:
            self.record.add(step)
        for row in np.flatnonzero(step.is_new & ~step.is_stop):
            self._show(int(row), self._streams[row].add(int(step.tokens[row])))

    def finish(self) -> None:
        for row, stream in enumerate(self._streams):
            self._show(row, stream.finish())

    def tokens_per_s(self) -> float | None:
        if not self._num_later:
            return None
        return self._num_later / (self.times_s[-1] - self.times_s[0])

    def _show(self, row: int, piece: str) -> None:
        self.pieces[row].append(piece)
        if row == 0 and self._on_text is not None:
            self._on_text(piece)
