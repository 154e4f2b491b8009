"""Whole folders: compressed file by file, resumed where they were left, and back byte by byte."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallas_kernels import ArgumentError, FormatError
from zipjax.files.atomic import AtomicFile, remove_leftovers
from zipjax.files.checksum import tensor_digest
from zipjax.files.container import Container
from zipjax.files.convert import compress_file, decompress_file
from zipjax.files.folder_lock import locked
from zipjax.files.folder_plan import FolderPlan, plan_folder
from zipjax.files.index import Index
from zipjax.files.summary import FileSummary, summarize
from zipjax.files.tensor_file import CONTAINER_SUFFIX, TensorFile, open_tensors

OnBytes = Callable[[int], None]
_COPY_NBYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class FolderSummary:
    """What was done with a folder.

    Attributes:
        files: its containers.
        copied: names of the files that were copied.
        left_out: names of what was not.
        reused: names of containers that were there already, whole and of the same tensors.
    """

    files: tuple[FileSummary, ...]
    copied: tuple[str, ...]
    left_out: tuple[str, ...]
    reused: tuple[str, ...] = ()

    @property
    def num_tensors(self) -> int:
        """Tensors of all containers."""
        return sum(len(file.tensors) for file in self.files)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of all tensors uncompressed."""
        return sum(file.raw_nbytes for file in self.files)

    @property
    def file_nbytes(self) -> int:
        """Bytes of all containers."""
        return sum(file.file_nbytes for file in self.files)

    @property
    def ratio(self) -> float:
        """Containers over uncompressed bytes; 1 where there are none."""
        return self.file_nbytes / self.raw_nbytes if self.raw_nbytes else 1.0

    def to_json(self) -> dict[str, Any]:
        """The attributes as JSON can hold them."""
        return {
            "file_nbytes": self.file_nbytes,
            "raw_nbytes": self.raw_nbytes,
            "ratio": round(self.ratio, 6),
            "copied": list(self.copied),
            "left_out": list(self.left_out),
            "reused": list(self.reused),
            "files": [file.to_json() for file in self.files],
        }


def compress_folder(
    plan: FolderPlan,
    target: str | os.PathLike[str],
    *,
    verified: bool = True,
    force: bool = False,
    num_threads: int = 1,
    on_bytes: OnBytes | None = None,
) -> FolderSummary:
    """Compress the weights of a folder and copy the rest; goes on where it was interrupted.

    A container that is in the target already is kept if it is whole and its tensors are those of
    the source; every other file appears whole or not at all.

    Args:
        plan: from `plan_folder(source, suffix=".safetensors")`.
        target: the folder to write; made if it is not there.
        verified: read every container again, and decompress it, before it takes its place.
        force: write over files that are something else.
        num_threads: how many tensors are compressed at once; see `save_sources`.
        on_bytes: called with uncompressed bytes as they are done, and again as they are verified.

    Raises:
        ArgumentError: the target holds another file under one of the names.
        FormatError: a file of the source is damaged.
        DiskError: the disk refused; what is finished stays.
    """
    folder, done = Path(target), on_bytes or _ignore
    _require_apart(plan.source, folder)
    reused, summaries = [], []
    with locked(folder):
        for path in plan.weights:
            into = folder / plan.target_of(path)
            _make_room(into)
            tensors = open_tensors(plan.source / path)
            summary = _finished(into, tensors)
            if summary is not None:
                reused.append(str(plan.target_of(path)))
                done(tensors.nbytes * (2 if verified else 1))
            else:
                _require_free(into, force)
                summary = compress_file(
                    tensors, into, verified=verified, num_threads=num_threads, on_bytes=done
                )
            summaries.append(summary)
        _copy_all(plan, folder, force)
    return _summary(plan, summaries, reused)


def decompress_folder(
    plan: FolderPlan,
    target: str | os.PathLike[str],
    *,
    force: bool = False,
    on_bytes: OnBytes | None = None,
) -> FolderSummary:
    """Write the files that `compress_folder` was given, byte by byte.

    Args:
        plan: from `plan_folder(source, suffix=".zipj")`.
        target: the folder to write; made if it is not there.
        force: write over files that are there.
        on_bytes: called after each tensor with its bytes.

    Raises:
        ArgumentError: the target holds a file under one of the names.
        FormatError: a container is damaged; the files before it are written.
        DiskError: the disk refused.
    """
    folder, summaries = Path(target), []
    _require_apart(plan.source, folder)
    with locked(folder):
        for path in plan.weights:
            into = folder / plan.target_of(path)
            _make_room(into)
            _require_free(into, force)
            summaries.append(decompress_file(plan.source / path, into, on_bytes=on_bytes))
        _copy_all(plan, folder, force)
    return _summary(plan, summaries, [])


def compressed_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The containers of a folder and those in it, in order; raises `ArgumentError` for none."""
    source = Path(folder)
    return [source / path for path in plan_folder(source, suffix=CONTAINER_SUFFIX).weights]


def _summary(plan: FolderPlan, files: list[FileSummary], reused: list[str]) -> FolderSummary:
    return FolderSummary(
        files=tuple(files),
        copied=tuple(map(str, plan.copied)),
        left_out=tuple(map(str, plan.left_out)),
        reused=tuple(reused),
    )


def _finished(path: Path, tensors: TensorFile) -> FileSummary | None:
    """The summary of the container at `path` if it is whole and holds exactly these tensors.

    Nothing is decompressed: its chunks are compared with their checksums, and its digests with
    those of the source.
    """
    if not path.is_file():
        return None
    try:
        with Container.open(path, verify="always") as container:
            index = container.index
            if not _same_outside(index, tensors):
                return None
            for source in tensors.sources:
                entry = index.entry(source.name)
                same_kind = (entry.dtype, entry.shape) == (source.dtype, source.shape)
                if not same_kind or entry.digest != tensor_digest(source.read()):  # type: ignore[arg-type]
                    return None
                container.compressed(source.name)
            return summarize(path, index, file_nbytes=container.header.file_nbytes)
    except FormatError:
        return None


def _same_outside(index: Index, tensors: TensorFile) -> bool:
    names = {source.name for source in tensors.sources}
    return index.origin == tensors.origin and set(index.stored_names) == names


def _copy_all(plan: FolderPlan, folder: Path, force: bool) -> None:
    for path in plan.copied:
        source, into = plan.source / path, folder / path
        _make_room(into)
        if into.is_file() and _same_bytes(source, into):
            continue
        _require_free(into, force)
        with open(source, "rb") as reader, AtomicFile(into) as file:
            while piece := reader.read(_COPY_NBYTES):
                file.write(piece)
            file.commit()


def _same_bytes(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with open(one, "rb") as first, open(other, "rb") as second:
        while piece := first.read(_COPY_NBYTES):
            if piece != second.read(_COPY_NBYTES):
                return False
    return True


def _require_apart(source: Path, target: Path) -> None:
    """A target inside the source would be copied into itself the next time."""
    inner, outer = target.resolve(), source.resolve()
    if inner == outer or outer in inner.parents:
        raise ArgumentError("the target must be outside the source", got=str(target))


def _require_free(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise ArgumentError(
            f"{path} exists and is damaged or something else",
            fix="write to another folder, or pass --force",
        )


def _make_room(path: Path) -> None:
    """The folder that a file goes to, without what an interrupted run left of that file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)


def _ignore(nbytes: int) -> None:
    del nbytes
