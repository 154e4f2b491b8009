"""Whole files: `.safetensors` and `.npz` into containers and back."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from pallas_kernels import FormatError
from zipjax.files.atomic import AtomicFile
from zipjax.files.container import Container
from zipjax.files.index import Index
from zipjax.files.npz_file import NpzWriter, require_npz_dtype
from zipjax.files.safetensors_file import (
    SafetensorsHeader,
    new_safetensors_header,
    parse_safetensors_header,
    safetensors_prefix,
)
from zipjax.files.saving import save_sources
from zipjax.files.summary import FileSummary, summarize
from zipjax.files.tensor_file import FOREIGN_SUFFIXES, TensorFile, known_suffix
from zipjax.files.verification import read_original, verify


def compress_file(
    tensors: TensorFile,
    target: str | os.PathLike[str],
    *,
    verified: bool = True,
    num_threads: int = 1,
    on_bytes: Callable[[int], None] | None = None,
) -> FileSummary:
    """Compress the tensors of a file into a container; never more than the largest in memory.

    Args:
        tensors: from `open_tensors`.
        target: where the container shall be.
        verified: read the container again, and decompress it, before it takes its place.
        num_threads: see `save_sources`.
        on_bytes: called after each tensor with its uncompressed bytes, once when it is written and
            again when it is verified.
    """
    done = on_bytes or _ignore
    return save_sources(
        target,
        tensors.sources,
        metadata=tensors.metadata,
        origin=tensors.origin,
        on_tensor=lambda source: done(source.nbytes),
        check=partial(_verify_only, num_threads=num_threads, on_bytes=done) if verified else None,
        num_threads=num_threads,
    )


def decompress_file(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    on_bytes: Callable[[int], None] | None = None,
) -> FileSummary:
    """Write the tensors of a container as `.safetensors` or `.npz`, by the suffix of `target`.

    A container that was made from a `.safetensors` file gives back that file, byte by byte.

    Args:
        path: the container.
        target: where the file shall be; it appears whole or not at all.
        on_bytes: called after each tensor with its bytes.

    Returns:
        The summary of the container.

    Raises:
        ArgumentError: a suffix that is not known, or a dtype that it cannot hold.
        FormatError: the container is damaged; nothing is written.
    """
    suffix = known_suffix(target, FOREIGN_SUFFIXES)
    with Container.open(path, verify="always") as container:
        write = _write_safetensors if suffix == ".safetensors" else _write_npz
        with AtomicFile(target) as file:
            write(container, file, on_bytes or _ignore)
            file.commit()
        return summarize(path, container.index, file_nbytes=container.header.file_nbytes)


def _write_safetensors(
    container: Container, file: AtomicFile, on_bytes: Callable[[int], None]
) -> None:
    header = _safetensors_header(container.index)
    prefix = safetensors_prefix(header)
    file.expect(len(prefix) + container.index.raw_nbytes)
    file.write(prefix)
    for place in sorted(header.places, key=lambda place: (place.begin, place.end)):
        x = read_original(container, place.name)
        file.write(x.reshape(-1).view(np.uint8).data)
        on_bytes(x.nbytes)


def _safetensors_header(index: Index) -> SafetensorsHeader:
    """The original header where the container has one, else a new one."""
    tensors = {
        name: (index.entry(name).dtype, index.entry(name).shape) for name in index.stored_names
    }
    if index.origin is None or index.origin.kind != "safetensors":
        return new_safetensors_header(tensors, index.metadata)
    header = parse_safetensors_header(index.origin.header.encode("utf-8"), data_nbytes=None)
    if {place.name: (place.dtype, place.shape) for place in header.places} != tensors:
        raise FormatError("the original header must describe the tensors that are stored")
    return header


def _write_npz(container: Container, file: AtomicFile, on_bytes: Callable[[int], None]) -> None:
    index = container.index
    for name in index.stored_names:
        require_npz_dtype(name, index.entry(name).dtype)
    file.expect(index.raw_nbytes + 1024 * len(index.stored_names))
    with NpzWriter(file) as writer:
        for name in index.stored_names:
            x = read_original(container, name)
            writer.add(name, x)
            on_bytes(x.nbytes)


def _verify_only(path: Path, num_threads: int, on_bytes: Callable[[int], None]) -> None:
    verify(path, num_threads=num_threads, on_tensor=lambda entry: on_bytes(entry.raw_nbytes))


def _ignore(nbytes: int) -> None:
    del nbytes
