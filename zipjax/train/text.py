"""Text to learn from, and text held back to judge by, that share no file."""

import hashlib
import os
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pallas_kernels import ArgumentError

VALIDATION_SHARE = 0.05  # of the bytes, about
GAP_NBYTES = 4096  # left out between the two halves of a text that is cut
SEPARATOR = b"\0"  # between files

_NOT_SOURCE = frozenset({"test", "tests", "idle_test", "site-packages", "dist-packages"})


@dataclass(frozen=True)
class Text:
    """Bytes of two disjoint sets of files, or of two ends of one text.

    Attributes:
        train: uint8 [n], to learn from.
        validation: uint8 [m], never learnt from.
        source: where it comes from, for people.
        num_files: files read.
    """

    train: np.ndarray
    validation: np.ndarray
    source: str
    num_files: int

    @property
    def digest(self) -> str:
        """Equal for equal text: 32 hexadecimal digits."""
        state = hashlib.blake2b(digest_size=16)
        for part in (self.train, self.validation):
            state.update(len(part).to_bytes(8, "little"))
            state.update(part.tobytes())
        return state.hexdigest()


def read_text(path: Path | None) -> Text:
    """Read a file, every file below a folder, or the source of Python's standard library.

    Files go to one side or the other by a hash of their content, so that equal files stay on one
    side. A single file, or files too large for that, are joined and cut, with a gap between.

    Args:
        path: file or folder; None for the standard library (without its tests).

    Raises:
        ArgumentError: when there is nothing to read.
    """
    root = Path(sysconfig.get_path("stdlib")) if path is None else path
    names = list(_python_sources(root) if path is None else _files(root))
    contents = [content for content in map(_read, names) if content]
    if not contents:
        raise ArgumentError(
            "the text must have at least one byte",
            got=f"{len(names)} files, all empty" if names else f"no file in {root}",
            fix="pass --data a text file or a folder that holds some",
        )
    train, validation = _split_by_file(contents) or _cut(SEPARATOR.join(contents))
    return Text(
        np.frombuffer(train, np.uint8),
        np.frombuffer(validation, np.uint8),
        "Python standard library" if path is None else str(path),
        len(contents),
    )


def _files(root: Path) -> Iterator[Path]:
    """The file itself, or every file below it that is not hidden, in order of names."""
    if not root.exists():
        raise ArgumentError("the text must exist", got=str(root), fix="check the path after --data")
    if not root.is_dir():
        yield root
        return
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        paths = (Path(folder, name) for name in sorted(names) if not name.startswith("."))
        yield from (path for path in paths if path.is_file())


def _python_sources(root: Path) -> Iterator[Path]:
    for path in _files(root):
        if path.suffix == ".py" and not _NOT_SOURCE & set(path.relative_to(root).parts):
            yield path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArgumentError(
            "every file of the text must be readable", got=f"{path}: {error.strerror}"
        ) from error


def _split_by_file(contents: list[bytes]) -> tuple[bytes, bytes] | None:
    """Hold back files in order of their hashes; None when all are too large to be held back."""
    twins = defaultdict(list)
    for content in contents:
        twins[hashlib.blake2b(content, digest_size=16).digest()].append(content)
    want = VALIDATION_SHARE * sum(map(len, contents))
    held: list[bytes] = []
    for digest in sorted(twins):
        size = sum(map(len, held))
        if size < want and size + sum(map(len, twins[digest])) <= 2 * want:
            held += twins.pop(digest)
    if not held or not twins:
        return None
    is_held = set(held)
    kept = [content for content in contents if content not in is_held]
    return SEPARATOR.join(kept), SEPARATOR.join(held)


def _cut(content: bytes) -> tuple[bytes, bytes]:
    gap = min(GAP_NBYTES, len(content) // 100)
    start = len(content) - int(VALIDATION_SHARE * len(content))
    return content[: start - gap], content[start:]
