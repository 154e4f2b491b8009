"""How a model's makers want it to be sampled: `generation_config.json`."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zipjax.files.model_folder import CONFIG_NAME, read_json
from zipjax.models.hf_fields import Fields

GENERATION_NAME = "generation_config.json"


@dataclass(frozen=True, kw_only=True)
class GenerationDefaults:
    """What `generation_config.json` says, or nothing where it is silent.

    Attributes:
        stop_tokens: tokens that end a text.
        start_token: the token that begins one, or None.
        sampled: whether to draw tokens instead of taking the likeliest.
        temperature: what logits are divided by before drawing.
        top_k: draw from so many likeliest tokens; None: from all.
        top_p: draw from the likeliest tokens that hold this probability; 1: from all.
    """

    stop_tokens: tuple[int, ...] = ()
    start_token: int | None = None
    sampled: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0


def load_generation_defaults(folder: str | os.PathLike[str]) -> GenerationDefaults:
    """The defaults of a model's folder; stop and start tokens are in `config.json` too.

    Raises:
        FormatError: a field is no such value.
    """
    path = Path(folder) / GENERATION_NAME
    values = read_json(path) if path.is_file() else {}
    path = Path(folder) / CONFIG_NAME
    fallback = read_json(path) if path.is_file() else {}
    fields = Fields(values, what=GENERATION_NAME)
    stop = values.get("eos_token_id", fallback.get("eos_token_id"))
    start = Fields({"bos_token_id": values.get("bos_token_id", fallback.get("bos_token_id"))})
    return GenerationDefaults(
        stop_tokens=_tokens(stop),
        start_token=start.optional_integer("bos_token_id"),
        sampled=fields.flag("do_sample", False),
        temperature=fields.number("temperature", 1.0),
        top_k=fields.optional_integer("top_k") or None,
        top_p=fields.number("top_p", 1.0),
    )


def _tokens(value: Any) -> tuple[int, ...]:
    """A token, several, or none."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(Fields({"eos_token_id": token}).integer("eos_token_id") for token in listed)
