"""Compare a whole container with its checksums, its digests and, if wanted, its original."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pallas_kernels import ChecksumError, FormatError, dtype_name
from zipjax.array import decompress
from zipjax.files.checksum import tensor_bytes, tensor_digest
from zipjax.files.container import Container
from zipjax.files.in_order import map_in_order
from zipjax.files.index import TensorEntry
from zipjax.files.summary import FileSummary, summarize
from zipjax.files.tensor_file import open_tensors
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What a verification found.

    Attributes:
        summary: the file.
        differences: one sentence for each tensor that is not as in the original; empty without one.
    """

    summary: FileSummary
    differences: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no differences."""
        return not self.differences


def verify(
    path: str | os.PathLike[str],
    *,
    against: str | os.PathLike[str] | Iterable[TensorSource] | None = None,
    on_tensor: Callable[[TensorEntry], None] | None = None,
    num_threads: int = 1,
) -> Verification:
    """Check every chunk's checksum, decompress every tensor and compare it with its digest.

    Args:
        path: a container file.
        against: the original, to be compared byte by byte: the path of a .safetensors, .npz or
            .zipj file, or tensors.
        on_tensor: called after each stored tensor.
        num_threads: how many tensors are decompressed at once, as far as they are together no
            larger than the largest of them.

    Returns:
        The file's summary, and how its tensors differ from `against`.

    Raises:
        ChecksumError: tensors are damaged; names them.
        FormatError: the file is foreign, truncated or of another version.
        OSError: the file cannot be read.
    """
    originals = _originals(against)  # Opened first: a mistyped path shall not cost a whole read.
    with Container.open(path, verify="always") as container:
        damaged = {}
        entries = list(container.index.entries.values())
        checked = map_in_order(
            lambda entry: _damage_of(container, entry), entries, num_threads=num_threads
        )
        for entry, error in zip(entries, checked, strict=True):
            if error is not None:
                damaged[entry.name] = error
            if on_tensor is not None:
                on_tensor(entry)
        if damaged:
            raise _damage(damaged, len(container.index.entries))
        summary = summarize(path, container.index, file_nbytes=container.header.file_nbytes)
        differences = () if originals is None else tuple(_differences(container, originals))
        return Verification(summary=summary, differences=differences)


def read_original(container: Container, name: str) -> np.ndarray:
    """Decompress a tensor and compare it with its digest; raises `FormatError`."""
    entry = container.entry(name)
    x = np.asarray(decompress(container.compressed(name)))
    digest = tensor_digest(x)
    if digest != entry.digest:
        raise ChecksumError(
            f"tensor {shown(name)} must decompress to bytes with xxh3_128 {entry.digest}",
            got=digest,
            fix="it was written wrongly: compress the original again",
        )
    return x


def _damage_of(container: Container, entry: TensorEntry) -> FormatError | None:
    """What is wrong with a stored tensor, if anything."""
    try:
        read_original(container, entry.name)
    except FormatError as error:
        return error
    return None


def _damage(damaged: dict[str, FormatError], num_tensors: int) -> FormatError:
    (_, first), *rest = damaged.items()
    if not rest:
        return first
    names = ", ".join(shown(name) for name in list(damaged)[:3]) + (
        ", ..." if len(rest) > 2 else ""
    )
    return ChecksumError(
        f"{len(damaged)} of {num_tensors} tensors are damaged: {names}; the first: {first.what}",
        got=first.got,
        fix=first.fix,
    )


def _originals(
    against: str | os.PathLike[str] | Iterable[TensorSource] | None,
) -> Sequence[TensorSource] | None:
    if against is None:
        return None
    if isinstance(against, str | os.PathLike):
        return open_tensors(against).sources
    return list(against)


def _differences(container: Container, originals: Sequence[TensorSource]) -> Iterator[str]:
    names = {source.name for source in originals}
    for name in container.index.stored_names:
        if name not in names:
            yield f"{shown(name)} is not in the original"
    for source in originals:
        difference = _difference(container, source)
        if difference:
            yield f"{shown(source.name)} {difference}"


def _difference(container: Container, source: TensorSource) -> str:
    if source.name not in container.index.stored_names:
        return "is only in the original"
    entry = container.entry(source.name)
    if (entry.dtype, entry.shape) != (source.dtype, source.shape):
        return (
            f"is {dtype_name(entry.dtype)}{list(entry.shape)}, "
            f"in the original {dtype_name(source.dtype)}{list(source.shape)}"
        )
    got = tensor_bytes(np.asarray(decompress(container.compressed(source.name))))
    want = tensor_bytes(np.asarray(decompress(source.read())))
    num_wrong = int(np.count_nonzero(got != want))
    return f"differs in {num_wrong} of {want.size} bytes" if num_wrong else ""
