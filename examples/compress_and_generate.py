"""Compress a language model, load it compressed, and get the same text bit for bit.

    python examples/compress_and_generate.py          # trains a small Llama first, for a minute
    python examples/compress_and_generate.py Llama-3.2-1B --prompt "Once upon a time"

Without a folder it learns from the source of Python's standard library, or from --data PATH, and
saves what Hugging Face would: config.json, model.safetensors in bfloat16, tokenizer.json. Runs on a
CPU. docs/compress_your_model.md has the rest. Exit codes: 0 done, 1 a bit differed, 2 an error,
130 Ctrl-C.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax
import tyro
from flax import nnx
from rich.console import Console
from rich.table import Table

import zipjax
from zipjax import models, serve
from zipjax.cli import main as zipjax_command
from zipjax.train import read_text

END = "<|end|>"  # Between texts; every prompt begins with it.
TEXT_NBYTES_MAX = 4_000_000  # More than is read in a minute.


@dataclass(frozen=True)
class Size:
    """How large the small Llama is, and how much it reads at once."""

    vocab_size: int = 1024
    width: int = 192
    num_layers: int = 3
    batch: int = 8
    length: int = 128


QUICK = Size(vocab_size=384, width=128, num_layers=1, batch=4, length=32)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compress a language model, load it compressed, and get the same text bit for bit."""

    folder: Annotated[Path | None, tyro.conf.arg(metavar="[FOLDER]"), tyro.conf.Positional] = None
    """A Hugging Face folder; by default a small model is trained."""
    prompt: str = "def main("
    """What to go on with."""
    max_new_tokens: int = 64
    """How many tokens to add at most."""
    out: Path = Path("runs/compress_and_generate")
    """Where to put the trained and the compressed model."""
    data: Path | None = None
    """Text file or folder to learn from; by default the source of Python's standard library."""
    seconds: float = 60.0
    """How long to train."""
    quick: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """A tiny model, trained for a second."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print the figures as JSON instead of a table."""


@dataclass(frozen=True)
class Outcome:
    """What one form of the model wrote, and what it took."""

    text: str
    tokens: tuple[int, ...]
    logits: serve.LogitsRecord
    model_nbytes: int
    tokens_per_s: float


def main(argv: list[str] | None = None) -> int:
    """Parse, run, and turn what goes wrong into one line and an exit code."""
    try:
        return run(tyro.cli(Options, args=argv))
    except zipjax.ZipError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def run(options: Options) -> int:
    """Train if there is no model, compress, generate in both forms, compare."""
    folder, small = options.folder, options.out / "compressed"
    if folder is None:
        folder = options.out / "model"
        if (folder / "config.json").exists():
            say(f"Using the model in {folder}")
        else:
            train(folder, options)
    code = zipjax_command(["compress", str(folder), str(small), "--quiet"])
    if code:
        return code
    say("Generating, compressed")
    compressed = complete(small, options)
    say("Generating, plain")
    plain = complete(folder, options)
    found = serve.compare_logits(compressed.logits, plain.logits)
    identical = found.identical and compressed.tokens == plain.tokens
    figures = {
        "file_nbytes": [weights_nbytes(folder), weights_nbytes(small)],
        "model_nbytes": [plain.model_nbytes, compressed.model_nbytes],
        "tokens_per_s": [plain.tokens_per_s, compressed.tokens_per_s],
        "num_logits": found.num_logits,
        "identical": identical,
    }
    show(options, compressed.text, figures)
    return 0 if identical else 1


def complete(folder: Path, options: Options) -> Outcome:
    """Load a folder in the form that it has, and go on with the prompt."""
    model, tokenizer = zipjax.load_model(folder), models.load_tokenizer(folder)
    defaults = models.load_generation_defaults(folder)
    record, times_s = serve.LogitsRecord(), []

    def on_step(step: serve.GenerationStep) -> None:
        record.add(step)
        times_s.append(time.perf_counter())

    (done,) = serve.generate(
        model,
        [tokenizer.encode(options.prompt)],
        max_new_tokens=options.max_new_tokens,
        sampling=serve.Sampling.from_defaults(defaults),
        stop_tokens=defaults.stop_tokens,
        on_step=on_step,
    )
    # The first token waits for two programs to be compiled.
    rate = (len(times_s) - 1) / max(times_s[-1] - times_s[0], 1e-9)
    nbytes = sum(leaf.nbytes for leaf in jax.tree.leaves(nnx.state(model)))
    return Outcome(tokenizer.decode(list(done.tokens)), done.tokens, record, nbytes, rate)


def train(folder: Path, options: Options) -> None:
    """Train a small Llama on text for a while, and save it as a Hugging Face folder."""
    size = QUICK if options.quick else Size()
    text = read_text(options.data)
    source = text.train[:TEXT_NBYTES_MAX].tobytes().decode(errors="replace")
    tokenizer = train_tokenizer(source, size.vocab_size)
    tokens = tokens_of(tokenizer, source)
    model = models.CausalLM(llama(size), rngs=nnx.Rngs(0))
    seconds = 1.0 if options.quick else options.seconds
    say(f"Training on {text.source}, {tokens.size:,} tokens, for {seconds:.0f} s")
    fit(model, batches(tokens, size), seconds)
    save(folder, model, tokenizer)


def llama(size: Size) -> models.CausalConfig:
    """A Llama, computed in float32 while it learns."""
    return models.CausalConfig(
        architecture="llama",
        vocab_size=size.vocab_size,
        width=size.width,
        attention=models.GroupedConfig(num_heads=4, num_kv_heads=2, head_dim=size.width // 4),
        feed_forward=(models.MlpConfig(hidden=3 * size.width),) * size.num_layers,
        windows=(None,) * size.num_layers,
        rope=models.RopeConfig(),
        tied=True,
        dtype="float32",
    )


def train_tokenizer(source: str, vocab_size: int):
    """Byte pairs of the source, for any text whatever."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers, processors, trainers
    from tokenizers import models as kinds

    tokenizer = Tokenizer(kinds.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(source.split("\0"), trainer)
    end = tokenizer.token_to_id(END)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, end)]
    )
    return tokenizer


def tokens_of(tokenizer, source: str) -> np.ndarray:
    """All texts, each behind its END: int32 [n]."""
    return np.concatenate(
        [np.asarray(text.ids, np.int32) for text in tokenizer.encode_batch(source.split("\0"))]
    )


def batches(tokens: np.ndarray, size: Size) -> Iterator[np.ndarray]:
    """Windows at random: int32 [batch, length + 1]."""
    rng = np.random.default_rng(0)
    while True:
        starts = rng.integers(tokens.size - size.length, size=size.batch)
        yield tokens[starts[:, None] + np.arange(size.length + 1)]


def fit(model: models.CausalLM, rows: Iterator[np.ndarray], seconds: float) -> None:
    """Minimise the cross entropy of the next token until the time is up."""
    rate = optax.linear_schedule(0.0, 3e-3, 20)
    chain = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))
    optimizer = nnx.Optimizer(model, chain, wrt=nnx.Param)

    @nnx.jit
    def learn(model, optimizer, tokens):
        def loss_of(model):
            logits, _ = model(tokens[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        loss, grads = nnx.value_and_grad(loss_of)(model)
        optimizer.update(model, grads)
        return loss

    losses, said_s, start_s = [], 0.0, time.monotonic()
    while not losses or time.monotonic() - start_s < seconds:
        losses.append(float(learn(model, optimizer, next(rows))))
        if time.monotonic() - start_s - said_s >= 10:
            said_s = time.monotonic() - start_s
            say(f"  {said_s:.0f} s, step {len(losses)}: {np.mean(losses[-20:]):.2f} nats/token")
    say(f"Trained {len(losses)} steps: {losses[0]:.2f} to {np.mean(losses[-20:]):.2f} nats/token")


def save(folder: Path, model: models.CausalLM, tokenizer) -> None:
    """Write weights in bfloat16, the tokenizer, and how tokens shall be drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    end = tokenizer.token_to_id(END)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"bos_token_id": end, "eos_token_id": end}
    settings |= {"do_sample": True, "temperature": 0.7, "top_k": 20}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    half = models.abstract_model(replace(model.config, dtype="bfloat16"))
    nnx.update(half, jax.tree.map(lambda x: x.astype(jnp.bfloat16), nnx.state(model)))
    models.save_model(folder, half)


def weights_nbytes(folder: Path) -> int:
    """Bytes of all files of weights."""
    files = (path for path in folder.rglob("*") if path.suffix in {".safetensors", ".zipj"})
    return sum(path.stat().st_size for path in files)


def show(options: Options, text: str, figures: dict) -> None:
    """Print the text and the figures of both forms."""
    if options.json:
        print(json.dumps(figures | {"text": text}))
        return
    print(options.prompt + text)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "plain", "compressed", "ratio"):
        table.add_column(name, justify="right" if name else "left")
    for name, key in (("files", "file_nbytes"), ("model in memory", "model_nbytes")):
        plain, small = figures[key]
        table.add_row(name, f"{plain:,} B", f"{small:,} B", f"{small / plain:.3f}")
    table.add_row("tokens/s", *(f"{rate:.1f}" for rate in figures["tokens_per_s"]), "")
    Console(highlight=False).print(table)
    if figures["identical"]:
        print(f"Identical: all tokens, and all {figures['num_logits']:,} logits on bits")
    else:
        print("DIFFERENT: the compressed model did not give the plain one's logits")


def say(line: str) -> None:
    """Talk goes to stderr."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
