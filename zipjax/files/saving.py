"""Save tensors to a container, one at a time."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pallas_kernels import ArgumentError, CompressedTensor, dtype_name
from zipjax.array import compress, decompress
from zipjax.files.checksum import tensor_bytes, tensor_digest
from zipjax.files.disk import Disk
from zipjax.files.in_order import map_in_order
from zipjax.files.index import Origin
from zipjax.files.names import check_names
from zipjax.files.spec import METADATA_ENTRIES_MAX
from zipjax.files.summary import FileSummary, summarize
from zipjax.files.tensor_source import TensorSource
from zipjax.files.tree import tree_sources
from zipjax.files.wording import shown
from zipjax.files.writer import ContainerWriter

OnTensor = Callable[[TensorSource], None]
Key = tuple[np.dtype, tuple[int, ...], str]
"""What tensors with equal bits have in common: dtype, shape and digest."""

# What a file may take beyond its raw tensors: a raw stream pads to 64 bytes, an index entry takes
# some 400 bytes and its name.
_OVERHEAD_NBYTES = 2048


def save(
    path: str | os.PathLike[str], tree: Any, *, metadata: Mapping[str, str] | None = None
) -> FileSummary:
    """Compress the arrays of a pytree into a container file.

    The file appears whole or not at all, in the place of what was there. Tensors with equal bits
    are stored once. Besides the arrays themselves, memory for about three times the largest of them
    is used.

    Args:
        path: where the file shall be, usually `*.zipj`.
        tree: NumPy or JAX arrays or `CompressedTensor`s in any pytree, such as a dict of names; a
            leaf is called by the keys on its path, joined by dots.
        metadata: texts to keep with the tensors.

    Returns:
        What was written.

    Raises:
        ArgumentError: a leaf is no array, or two leaves would have one name.
        UnsupportedError: a dtype that cannot be stored.
        DiskError: the disk refused; says how much is missing, and the old file is untouched.
    """
    return save_sources(path, tree_sources(tree), metadata=metadata)


def save_sources(
    path: str | os.PathLike[str],
    sources: Sequence[TensorSource],
    *,
    metadata: Mapping[str, str] | None = None,
    origin: Origin | None = None,
    disk: Disk | None = None,
    on_tensor: OnTensor | None = None,
    check: Callable[[Path], None] | None = None,
    num_threads: int = 1,
) -> FileSummary:
    """Compress tensors that are read one by one; see `save`.

    Args:
        path: where the file shall be.
        sources: the tensors.
        metadata: texts to keep with the tensors.
        origin: what the tensors came from.
        disk: the file calls to use.
        on_tensor: called after each tensor.
        check: called with the path of the complete file before it takes its place.
        num_threads: how many tensors are compressed at once, as far as they are together no larger
            than the largest of them; the file is the same whatever it is.
    """
    check_names(source.name for source in sources)
    for source in sources:
        dtype_name(source.dtype)  # Refuse before hours of work, not after.
    with ContainerWriter(
        path, metadata=_checked_metadata(metadata), origin=origin, disk=disk
    ) as writer:
        writer.expect(sum(source.nbytes + _OVERHEAD_NBYTES for source in sources))
        first_by_key: dict[Key, TensorSource] = {}
        ready = map_in_order(
            lambda source: _prepare(source, first_by_key), sources, num_threads=num_threads
        )
        for source, prepared in zip(sources, ready, strict=True):
            _write(writer, source, prepared, first_by_key)
            if on_tensor is not None:
                on_tensor(source)
        file_nbytes = writer.commit(check=check)
        return summarize(path, writer.index, file_nbytes=file_nbytes)


@dataclass
class _Prepared:
    """A tensor ready to be written.

    Attributes:
        key: its key.
        tensor: compressed, until it is taken; None where its like is written already.
    """

    key: Key
    tensor: CompressedTensor | None

    def take(self) -> CompressedTensor | None:
        """Give the tensor up, so that it is gone before the next one is prepared."""
        tensor, self.tensor = self.tensor, None
        return tensor


def _prepare(source: TensorSource, first_by_key: Mapping[Key, TensorSource]) -> _Prepared:
    """Read and compress a tensor, unless its like is written already."""
    value = source.read()
    original = _original(value)
    key = (source.dtype, source.shape, tensor_digest(original))
    if key in first_by_key:
        return _Prepared(key, None)
    return _Prepared(key, value if isinstance(value, CompressedTensor) else compress(original))


def _write(
    writer: ContainerWriter,
    source: TensorSource,
    prepared: _Prepared,
    first_by_key: dict[Key, TensorSource],
) -> None:
    """Store a tensor, or tie it to an earlier one with the same bits."""
    key, tensor = prepared.key, prepared.take()
    first = first_by_key.setdefault(key, source)
    # The digest only suggests equality; the bytes decide.
    if first is not source and np.array_equal(
        tensor_bytes(_original(source.read())), tensor_bytes(_original(first.read()))
    ):
        writer.tie(source.name, first.name)
        return
    if tensor is None:
        tensor = compress(_original(source.read()))
    writer.add(source.name, tensor, digest=key[-1])


def _original(value: np.ndarray | CompressedTensor) -> np.ndarray:
    """The uncompressed tensor, contiguous, so that nobody below copies it again."""
    array = np.asarray(decompress(value))
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    texts = dict(metadata or {})
    if len(texts) > METADATA_ENTRIES_MAX:
        raise ArgumentError(f"metadata may have {METADATA_ENTRIES_MAX} entries", got=len(texts))
    for key, value in texts.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentError(
                "metadata must be text by text", got=f"{shown(key)}: {shown(value)}"
            )
        try:
            (key + value).encode("utf-8")
        except UnicodeEncodeError:
            raise ArgumentError("metadata must be UTF-8 text", got=shown(key + value)) from None
    return texts
