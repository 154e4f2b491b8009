"""Save a model as a Hugging Face folder."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from pallas_kernels import ArgumentError
from zipjax.files.atomic import AtomicFile
from zipjax.files.checksum import tensor_bytes
from zipjax.files.model_folder import CONFIG_NAME, INDEX_NAME
from zipjax.files.safetensors_file import new_safetensors_header, safetensors_prefix
from zipjax.models.causal_lm import CausalLM
from zipjax.models.hf_config_writing import config_to_hf
from zipjax.models.hf_names import Slot, slots_of

_METADATA = {"format": "pt"}  # Without it, transformers refuses the file.

Piece = tuple[str, Slot, int]
"""A tensor of the checkpoint: its name, the parameter it is in, and its place along the stack."""


def save_model(
    folder: str | os.PathLike[str],
    model: CausalLM,
    *,
    shard_nbytes_max: int = 5_000_000_000,
) -> None:
    """Write `config.json` and `.safetensors` files that zipjax and transformers load.

    Each file appears whole or not at all, the configuration last.

    Args:
        folder: made if it is not there.
        model: with plain parameters.
        shard_nbytes_max: how many bytes of tensors a file may hold; one tensor may be more.

    Raises:
        ArgumentError: the folder holds a model already.
        UnsupportedError: a configuration that `config.json` cannot express.
        DiskError: the disk refused.
    """
    path, values = Path(folder), config_to_hf(model.config)
    if (path / CONFIG_NAME).exists():
        raise ArgumentError(f"{path} must hold no model yet", fix="save into an empty folder")
    path.mkdir(parents=True, exist_ok=True)
    shards = _shards(model, shard_nbytes_max)
    weight_map: dict[str, str] = {}
    for idx, shard in enumerate(shards):
        name = "model.safetensors"
        if len(shards) > 1:
            name = f"model-{idx + 1:05}-of-{len(shards):05}.safetensors"
        _write_shard(path / name, model, shard)
        weight_map |= {tensor: name for tensor, _, _ in shard}
    if len(shards) > 1:
        nbytes = sum(_nbytes(model, piece) for shard in shards for piece in shard)
        _write_json(
            path / INDEX_NAME, {"metadata": {"total_size": nbytes}, "weight_map": weight_map}
        )
    _write_json(path / CONFIG_NAME, values)


def _shards(model: CausalLM, nbytes_max: int) -> list[list[Piece]]:
    """The tensors in order, cut where a file would be too large."""
    shards: list[list[Piece]] = [[]]
    held_nbytes = 0
    for slot in slots_of(model):
        for place, name in enumerate(slot.names):
            nbytes = _nbytes(model, (name, slot, place))
            if shards[-1] and held_nbytes + nbytes > nbytes_max:
                shards.append([])
                held_nbytes = 0
            shards[-1].append((name, slot, place))
            held_nbytes += nbytes
    return shards


def _write_shard(path: Path, model: CausalLM, shard: list[Piece]) -> None:
    by_name = {name: (slot, place) for name, slot, place in shard}
    kinds = {
        name: (np.dtype(_value(model, slot).dtype), slot.tensor_shape)
        for name, (slot, _) in by_name.items()
    }
    header = new_safetensors_header(kinds, _METADATA)
    with AtomicFile(path) as file:
        file.write(safetensors_prefix(header))
        for spot in sorted(header.places, key=lambda spot: (spot.begin, spot.end)):
            slot, place = by_name[spot.name]
            x = np.asarray(_value(model, slot)[place] if slot.stacked else _value(model, slot))
            file.write(tensor_bytes(x.T if slot.transposed else x).data)
        file.commit()


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with AtomicFile(path) as file:
        file.write(json.dumps(value, indent=2).encode())
        file.commit()


def _value(model: CausalLM, slot: Slot) -> Any:
    variable: nnx.Param = _follow(model, iter(slot.path))
    return variable[...]


def _follow(node: Any, keys: Iterator[str | int]) -> Any:
    for key in keys:
        node = node[key] if isinstance(key, int) else getattr(node, key)
    return node


def _nbytes(model: CausalLM, piece: Piece) -> int:
    _, slot, _ = piece
    return math.prod(slot.tensor_shape) * np.dtype(_value(model, slot).dtype).itemsize
