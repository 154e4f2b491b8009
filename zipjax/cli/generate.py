"""`zipjax generate`: what a model says, plain or compressed, and whether the two say the same."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pallas_kernels import ArgumentError
from zipjax.cli.generation_run import Run, Task, run_task
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk
from zipjax.models import (
    GenerationDefaults,
    Tokenizer,
    load_generation_defaults,
    load_tokenizer,
)
from zipjax.serve import LogitsComparison, Sampling, compare_logits


@dataclass(frozen=True, kw_only=True)
class Generate(TalkOptions):
    """Go on with one or more prompts; text to stdout as it comes.

    Tokens are chosen as `generation_config.json` says, by default the likeliest. With --compare a
    compressed and a plain run must have the same logits on every bit, else it fails (1).
    """

    source: tyro.conf.Positional[Path]
    """The folder of a model, compressed or not."""
    prompt: tuple[str, ...]
    """One or more texts, completed together."""
    max_new_tokens: int = 128
    """Tokens that a prompt gets at most."""
    temperature: float | None = None
    """What logits are divided by before a token is drawn; 0 takes the likeliest."""
    top_k: int | None = None
    """Draw from so many likeliest tokens; 0: from all."""
    top_p: float | None = None
    """Draw from the likeliest tokens that hold this probability; 1: from all."""
    seed: int = 0
    """Equal seeds draw equal texts."""
    form: Literal["stored", "plain", "compressed"] = "stored"
    """How the model's matrices are kept in memory; by default as in the folder."""
    compare: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Run the model compressed, then plain, and compare all logits on bits."""
    ignored_fields: tuple[str, ...] = ()
    """Fields of config.json that zipjax does not know and that change no numbers."""

    def run(self) -> bool:
        """Generate, say how fast, and compare where asked to."""
        talk = Talk(self)
        task = self._task()
        first_form = {"stored": None, "plain": False, "compressed": True}[self.form]
        first = run_task(
            task,
            talk,
            compressed=True if self.compare else first_form,
            on_text=(lambda piece: talk.text(piece, end="")) if len(self.prompt) == 1 else None,
        )
        talk.text(self._texts(first))
        talk.summary(first.sentence())
        plain = run_task(task, talk, compressed=False, on_text=None) if self.compare else None
        data, passed = self._data(task, first), True
        if plain is not None:
            found = compare_logits(first.record, plain.record)
            same_tokens = (first.tokens, first.stops) == (plain.tokens, plain.stops)
            passed = found.identical and same_tokens
            talk.summary(plain.sentence())
            talk.summary(_verdict(found, same_tokens))
            data["compare"] = _comparison(found, same_tokens, plain)
        talk.data(data)
        return passed

    def _task(self) -> Task:
        if not self.prompt:
            raise ArgumentError("--prompt must be given a text", got="none")
        tokenizer, defaults = load_tokenizer(self.source), load_generation_defaults(self.source)
        return Task(
            folder=self.source,
            tokenizer=tokenizer,
            prompts=[_tokens_of(text, tokenizer, defaults) for text in self.prompt],
            max_new_tokens=self.max_new_tokens,
            sampling=self._sampling(defaults),
            stop_tokens=defaults.stop_tokens,
            ignored_fields=self.ignored_fields,
            keeps_digests=self.compare,
        )

    def _sampling(self, defaults: GenerationDefaults) -> Sampling | None:
        """What the folder says, and over it what the command line says."""
        if self.temperature == 0:
            return None
        sampling = Sampling.from_defaults(defaults, seed=self.seed)
        if self.temperature is not None:
            base = sampling or Sampling(seed=self.seed)
            sampling = replace(base, temperature=self.temperature)
        if sampling is None:
            if self.top_k or self.top_p is not None:
                raise ArgumentError(
                    "--top-k and --top-p need a temperature, for the likeliest token is taken",
                    fix="add --temperature 1",
                )
            return None
        if self.top_k is not None:
            sampling = replace(sampling, top_k=self.top_k or None)
        return sampling if self.top_p is None else replace(sampling, top_p=self.top_p)

    def _texts(self, run: Run) -> str:
        """What is left to print: of one prompt, whose text is out already, the end of its line."""
        if len(self.prompt) == 1:
            return ""
        pairs = zip(self.prompt, run.texts, strict=True)
        return "\n".join(f"[{idx}] {prompt}{text}" for idx, (prompt, text) in enumerate(pairs))

    def _data(self, task: Task, run: Run) -> dict[str, Any]:
        rows = zip(self.prompt, task.prompts, run.texts, run.tokens, run.stops, strict=True)
        names = ("prompt", "prompt_tokens", "text", "tokens", "stop_token")
        return {"completions": [dict(zip(names, row, strict=True)) for row in rows]} | run.figures()


def _tokens_of(text: str, tokenizer: Tokenizer, defaults: GenerationDefaults) -> list[int]:
    """A prompt's tokens; an empty one begins with the start token, where the model has one."""
    tokens = tokenizer.encode(text)
    if not tokens and defaults.start_token is not None:
        return [defaults.start_token]
    return tokens


def _comparison(found: LogitsComparison, same_tokens: bool, plain: Run) -> dict[str, Any]:
    return {
        "identical": found.identical,
        "same_tokens": same_tokens,
        "num_steps": found.num_steps,
        "num_logits": found.num_logits,
        "first_difference": found.first_difference,
        "plain": plain.figures(),
    }


def _verdict(found: LogitsComparison, same_tokens: bool) -> str:
    tokens = "the same tokens" if same_tokens else "other tokens"
    if found.identical:
        return (
            f"identical: all {found.num_logits:,} logits of {found.num_steps} steps on bits, "
            f"and {tokens}"
        )
    return f"DIFFERENT: logits from step {found.first_difference} on; {tokens}"
