"""Texts that a model goes on with, a token at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from pallas_kernels import ArgumentError, ZipError
from zipjax.models import Cache, CausalLM
from zipjax.serve.placement import places_of
from zipjax.serve.programs import Choice, Frontier, programs
from zipjax.serve.prompts import cache_capacity, chunk_width, chunks, require_prompts
from zipjax.serve.sampling import Sampling, draw_from


@dataclass(frozen=True)
class GenerationStep:
    """One new token for each of B sequences.

    Attributes:
        tokens: int32 [B]; without meaning where `is_new` is not.
        is_new: bool [B], whether the sequence still went on before this step.
        is_stop: bool [B], whether this token is a stop token and ended it.
        logits: float32 [B, V], what the tokens were chosen from; without meaning where `is_new`
            is not.
    """

    tokens: Int[np.ndarray, " B"]
    is_new: Bool[np.ndarray, " B"]
    is_stop: Bool[np.ndarray, " B"]
    logits: Float[Array, "B V"]


@dataclass(frozen=True)
class Completion:
    """What a prompt was completed with.

    Attributes:
        tokens: new ones, without the prompt and without the stop token.
        stop_token: the one that ended it; None where there was no room for more.
    """

    tokens: tuple[int, ...]
    stop_token: int | None


def generate(
    model: CausalLM,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 128,
    sampling: Sampling | None = None,
    stop_tokens: Sequence[int] = (),
    prefill_width: int = 256,
    on_step: Callable[[GenerationStep], None] | None = None,
) -> list[Completion]:
    """Go on with each prompt until a stop token, or `max_new_tokens`.

    The tokens of a prompt are those that it would get alone, but for rounding where two logits are
    as good as equal. A compressed model gives the tokens, and the logits on bits, of its plain one.

        defaults = load_generation_defaults(folder)
        generate(
            load_model(folder),
            [tokenizer.encode("Once upon a time"), tokenizer.encode("def main(")],
            sampling=Sampling.from_defaults(defaults),
            stop_tokens=defaults.stop_tokens,
        )

    Args:
        model: plain or compressed, on one device or a mesh.
        prompts: B lists of tokens, of any lengths above 0.
        max_new_tokens: tokens that a prompt gets at most, at least 1, the stop token included.
        sampling: how to draw tokens; None takes the likeliest.
        stop_tokens: tokens that end a text.
        prefill_width: prompts are read so many tokens at a time, for which memory is needed.
        on_step: called with every step as it comes.

    Raises:
        ArgumentError: a prompt is empty, or a number out of its range.
        ZipError: logits are not numbers.
    """
    new: list[list[int]] = [[] for _ in prompts]
    stops: list[int | None] = [None] * len(prompts)
    for step in generation_steps(
        model,
        prompts,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        stop_tokens=stop_tokens,
        prefill_width=prefill_width,
    ):
        if on_step is not None:
            on_step(step)
        for row in np.flatnonzero(step.is_new):
            token = int(step.tokens[row])
            if step.is_stop[row]:
                stops[row] = token
            else:
                new[row].append(token)
    return [Completion(tuple(tokens), stop) for tokens, stop in zip(new, stops, strict=True)]


def generation_steps(
    model: CausalLM,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int = 128,
    sampling: Sampling | None = None,
    stop_tokens: Sequence[int] = (),
    prefill_width: int = 256,
) -> Iterator[GenerationStep]:
    """The same step by step; arguments and errors are those of `generate`.

    Two programs run, however long the prompts and the texts: one for a chunk of the prompts and one
    for a token of each. Step n + 1 is started before step n is given out, so that the device need
    not wait for whoever reads it.
    """
    arrays = require_prompts(prompts, model.config.vocab_size)
    if max_new_tokens < 1 or prefill_width < 1:
        raise ArgumentError(
            "max_new_tokens and prefill_width must be at least 1",
            got=f"{max_new_tokens} and {prefill_width}",
        )
    choice = Choice(draw_from(sampling), jnp.asarray(stop_tokens, jnp.int32).reshape(-1))
    return _steps(model, arrays, max_new_tokens, choice, prefill_width)


def _steps(
    model: CausalLM,
    prompts: list[np.ndarray],
    max_new_tokens: int,
    choice: Choice,
    prefill_width: int,
) -> Iterator[GenerationStep]:
    graphdef, state = nnx.split(model)
    weights, treedef = jax.tree.flatten(state)
    run = programs(graphdef, treedef, places_of(model))
    cache, frontier = _before_prompts(model, prompts, max_new_tokens)
    width = _prefill_width(model, max(prompt.size for prompt in prompts), prefill_width)
    for chunk in chunks(prompts, width):
        cache, frontier = run.prefill(weights, cache, frontier, chunk, choice)
    was_done = np.zeros(len(prompts), bool)
    for idx in range(max_new_tokens):
        newest = frontier
        if idx + 1 < max_new_tokens:
            cache, frontier = run.step(weights, cache, newest, choice)
        step = _read(newest, was_done)
        yield step
        was_done = was_done | step.is_stop
        if was_done.all():
            return


def _prefill_width(model: CausalLM, longest: int, width_max: int) -> int:
    # Dynamic angles depend on how much of a prompt is read at once: all of it.
    whole = model.config.rope.kind == "dynamic"
    return chunk_width(longest, max(longest, width_max) if whole else width_max)


def _before_prompts(
    model: CausalLM, prompts: list[np.ndarray], max_new_tokens: int
) -> tuple[Cache, Frontier]:
    """An empty cache, and a frontier of which only `positions`, of the first new tokens, count."""
    lengths = [prompt.size for prompt in prompts]
    cache = model.init_cache(len(prompts), cache_capacity(max(lengths), max_new_tokens))
    frontier = Frontier(
        tokens=jnp.zeros(len(prompts), jnp.int32),
        positions=jnp.asarray(lengths, jnp.int32),
        is_done=jnp.zeros(len(prompts), bool),
        logits=jnp.zeros((len(prompts), model.config.vocab_size), jnp.float32),
    )
    places = places_of(model)
    return (cache, frontier) if places is None else places.put((cache, frontier))


def _read(frontier: Frontier, was_done: np.ndarray) -> GenerationStep:
    tokens, is_done = np.asarray(frontier.tokens), np.asarray(frontier.is_done)
    is_new = ~was_done
    if (tokens[is_new] < 0).any():
        raise ZipError(
            "logits must be numbers",
            got=f"NaN in sequence {np.flatnonzero(is_new & (tokens < 0))[0]}",
            fix="check the model's weights with `zipjax verify`, or compute in float32",
        )
    return GenerationStep(tokens, is_new, is_new & is_done, frontier.logits)
