"""A file of tensors that are read one by one, whatever its kind."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pallas_kernels import ArgumentError
from zipjax.array import decompress
from zipjax.files.container import Container
from zipjax.files.index import Origin
from zipjax.files.npz_file import open_npz
from zipjax.files.parts import decoded_parts
from zipjax.files.safetensors_file import open_safetensors
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import did_you_mean

FOREIGN_SUFFIXES = (".safetensors", ".npz")
CONTAINER_SUFFIX = ".zipj"


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorFile:
    """A file of tensors that are read one by one.

    Attributes:
        sources: its tensors.
        metadata: its texts.
        origin: what is needed to write the very same file again, if anything.
    """

    sources: tuple[TensorSource, ...]
    metadata: Mapping[str, str]
    origin: Origin | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(source.nbytes for source in self.sources)


def open_tensors(path: str | os.PathLike[str]) -> TensorFile:
    """Open a `.safetensors`, `.npz` or `.zipj` file by its suffix.

    Raises:
        ArgumentError: another suffix.
        FormatError: the file is not what its suffix says.
        OSError: it cannot be read.
    """
    match known_suffix(path, (*FOREIGN_SUFFIXES, CONTAINER_SUFFIX)):
        case ".safetensors":
            header, sources = open_safetensors(path)
            origin = Origin(kind="safetensors", header=header.text)
            return TensorFile(sources=tuple(sources), metadata=header.metadata, origin=origin)
        case ".npz":
            return TensorFile(sources=tuple(open_npz(path)), metadata={})
    container = Container.open(path)
    index = container.index
    sources = [_container_source(container, name) for name in index.stored_names]
    return TensorFile(sources=tuple(sources), metadata=index.metadata, origin=index.origin)


def _container_source(container: Container, name: str) -> TensorSource:
    entry = container.entry(name)
    return TensorSource(
        name=name,
        dtype=entry.dtype,
        shape=entry.shape,
        read=lambda: np.asarray(decompress(container.compressed(name))),
        read_parts=lambda part_elems: decoded_parts(container.compressed(name), part_elems),
    )


def known_suffix(path: str | os.PathLike[str], known: tuple[str, ...]) -> str:
    """The suffix of `path`, which must be one of `known`; raises `ArgumentError`."""
    suffix = Path(path).suffix.lower()
    if suffix in known:
        return suffix
    raise ArgumentError(
        f"the file's name must end in {' or '.join(known)}",
        got=f"{os.fspath(path)!r}",
        fix=did_you_mean(suffix, known),
    )
