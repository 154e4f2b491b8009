"""A folder with a model: configuration, tokenizer, and weights in one or several files.

The layout is Hugging Face's: `config.json`, `tokenizer.json`, `generation_config.json`, and
`model.safetensors`, or several files and `model.safetensors.index.json`, which says what lies
where. A compressed folder is the same with `.zipj` in the place of `.safetensors`.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallas_kernels import ArgumentError, FormatError, UnsupportedError
from zipjax.files.tensor_file import CONTAINER_SUFFIX, open_tensors
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import shown

CONFIG_NAME = "config.json"
INDEX_NAME = "model.safetensors.index.json"
_WEIGHTS_SUFFIX = ".safetensors"
_JSON_NBYTES_MAX = 100_000_000
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A folder whose files are known and not yet read.

    Attributes:
        path: the folder.
        shards: the files with the weights, in order.
        weight_map: name of a tensor -> name of its `.safetensors` file; empty without an index.
    """

    path: Path
    shards: tuple[Path, ...]
    weight_map: Mapping[str, str]

    @property
    def is_compressed(self) -> bool:
        """Whether the weights are in `.zipj` files."""
        return all(shard.suffix.lower() == CONTAINER_SUFFIX for shard in self.shards)

    def config(self) -> dict[str, Any]:
        """What `config.json` says."""
        return read_json(self.path / CONFIG_NAME)

    def tensors(self) -> dict[str, TensorSource]:
        """The tensors of all shards; reads their headers only.

        Raises:
            FormatError: a shard is damaged, or does not hold what the index says.
        """
        sources: dict[str, TensorSource] = {}
        for shard in self.shards:
            for source in open_tensors(shard).sources:
                if source.name in sources:
                    raise FormatError(
                        "every tensor must lie in one file", got=f"{shown(source.name)} in two"
                    )
                self._require_mapped(source.name, shard)
                sources[source.name] = source
        missing = [name for name in self.weight_map if name not in sources]
        if missing:
            raise FormatError(
                f"the files must hold the tensors that {INDEX_NAME} lists", got=_few(missing)
            )
        return sources

    def _require_mapped(self, name: str, shard: Path) -> None:
        """The index is what other readers go by: one that says something else is damage."""
        if self.weight_map and Path(self.weight_map.get(name, "")).stem != shard.stem:
            raise FormatError(
                f"{INDEX_NAME} must say that {shown(name)} lies in {shard.stem}{_WEIGHTS_SUFFIX}",
                got=shown(self.weight_map.get(name)),
            )


def open_model_folder(path: str | os.PathLike[str]) -> ModelFolder:
    """Find the files of a model; reads the index of the weights only.

    Raises:
        ArgumentError: no such folder, or one without a model.
        FormatError: a file that the index names is not there.
        UnsupportedError: weights as pickles only.
    """
    folder = Path(path)
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise ArgumentError(f"{folder} must be a folder with a model", got=got)
    if not (folder / CONFIG_NAME).is_file():
        raise ArgumentError(f"{folder} must hold {CONFIG_NAME}", fix="give the folder of a model")
    index = folder / INDEX_NAME
    if index.is_file():
        weight_map = _weight_map(read_json(index))
        names = sorted(set(weight_map.values()))
        return ModelFolder(
            path=folder,
            shards=tuple(_shard(folder, name) for name in names),
            weight_map=weight_map,
        )
    return ModelFolder(path=folder, shards=_shards_without_index(folder), weight_map={})


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object from a file; a repeated key is refused.

    Raises:
        FormatError: it is something else.
        OSError: it cannot be read.
    """
    if path.stat().st_size > _JSON_NBYTES_MAX:
        raise FormatError(f"{path} may hold {_JSON_NBYTES_MAX} bytes", got=path.stat().st_size)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise FormatError(f"{path} must have every key once")
        return value

    try:
        value = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} must be JSON", got=shown(str(error))) from None
    if not isinstance(value, dict):
        raise FormatError(f"{path} must be a JSON object", got=shown(value))
    return value


def _weight_map(index: Mapping[str, Any]) -> dict[str, str]:
    value = index.get("weight_map")
    if not isinstance(value, dict) or not value:
        raise FormatError(f"{INDEX_NAME} must have a weight_map", got=shown(value))
    for name in value.values():
        # A name that leads out of the folder would make us read what we were not given.
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or not name.endswith(".safetensors")
        ):
            raise FormatError(
                f"the files in {INDEX_NAME} must be .safetensors files of the folder",
                got=shown(name),
            )
    return value


def _shard(folder: Path, name: str) -> Path:
    for path in (folder / name, (folder / name).with_suffix(CONTAINER_SUFFIX)):
        if path.is_file():
            return path
    raise FormatError(f"{folder} must hold {name}, or its .zipj file", fix="copy the folder again")


def _shards_without_index(folder: Path) -> tuple[Path, ...]:
    """`model.*` where there is one, else the only file of weights."""
    for suffix in (_WEIGHTS_SUFFIX, CONTAINER_SUFFIX):
        path = folder / f"model{suffix}"
        if path.is_file():
            return (path,)
    found = [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in (_WEIGHTS_SUFFIX, CONTAINER_SUFFIX)
    ]
    if len(found) == 1:
        return (found[0],)
    if found:
        raise FormatError(
            f"{folder} must hold model.safetensors or {INDEX_NAME}",
            got=_few([path.name for path in found]),
        )
    if any(path.suffix.lower() in _PICKLES for path in folder.iterdir()):
        raise UnsupportedError(
            "weights must be .safetensors files",
            got="pickles, which run code when they are read",
            fix="save the model again with safe_serialization=True",
        )
    raise ArgumentError(f"{folder} must hold weights", fix="give the folder of a model")


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(name) for name in names[:3]) + more
