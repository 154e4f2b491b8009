"""NumPy's `.npz`: a zip of `.npy` members, read and written one by one and without pickle."""

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, cast

import numpy as np

from pallas_kernels import ArgumentError, FormatError, ZipError, dtype_name
from zipjax.files.atomic import AtomicFile
from zipjax.files.names import check_names
from zipjax.files.npy_header import NpyHeader, read_npy_header
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import shown

_SUFFIX = ".npy"
# What `zipfile` raises on a broken archive: the last two for encryption and unknown compression.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    RuntimeError,
    NotImplementedError,
)
# The earliest day a zip can name: files do not depend on when they were written.
_DAY = (1980, 1, 1, 0, 0, 0)


def open_npz(path: str | os.PathLike[str]) -> list[TensorSource]:
    """Offer the arrays of a `.npz` file, in its order.

    Raises:
        FormatError: the file is damaged, or holds Python objects or dtypes that cannot be stored.
        OSError: the file cannot be read.
    """
    with _damage_named(os.fspath(path)):
        archive = zipfile.ZipFile(path)
        sources = [_source(archive, info) for info in archive.infolist()]
    check_names(source.name for source in sources)
    return sources


class NpzWriter:
    """Writes arrays into a `.npz` that is written aside; the end of the block completes it."""

    def __init__(self, file: AtomicFile):
        """Start a zip in `file`."""
        self._target = _Unseekable(file)
        self._zip = zipfile.ZipFile(cast(IO[bytes], self._target), "w", zipfile.ZIP_STORED)

    def __enter__(self) -> "NpzWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # After an error there is no file to complete, but the zip must be closed all the same.
        self._target.discards = kind is not None
        self._zip.close()

    def add(self, name: str, x: np.ndarray) -> None:
        """Write an array."""
        require_npz_dtype(name, x.dtype)
        info = zipfile.ZipInfo(name + _SUFFIX, date_time=_DAY)
        with self._zip.open(info, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.asarray(x), allow_pickle=False)


def require_npz_dtype(name: str, dtype: np.dtype) -> None:
    """Refuse a dtype that NumPy would write without its name."""
    if dtype.isbuiltin != 1:
        raise ArgumentError(
            ".npz keeps no dtype but NumPy's own",
            got=f"{dtype_name(dtype)} of {shown(name)}",
            fix="write .safetensors",
        )


class _Unseekable:
    """The part of a file that `zipfile` needs to write a stream."""

    def __init__(self, file: AtomicFile):
        self.discards = False
        self._file = file

    def write(self, data: bytes | memoryview) -> int:
        return len(data) if self.discards else self._file.write(data)

    def tell(self) -> int:
        return self._file.position

    def flush(self) -> None:
        """Nothing is buffered."""


def _source(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> TensorSource:
    if not info.filename.endswith(_SUFFIX):
        raise FormatError("members of a .npz must end in .npy", got=shown(info.filename))
    name = info.filename.removesuffix(_SUFFIX)
    with archive.open(info) as member:
        header = _read_header(member, info, name)

    def read() -> np.ndarray:
        with _damage_named(str(archive.filename)), archive.open(info) as member:
            return _read_array(member, info, name)

    return TensorSource(name=name, dtype=header.dtype, shape=header.shape, read=read)


def _read_header(member: IO[bytes], info: zipfile.ZipInfo, name: str) -> NpyHeader:
    header = read_npy_header(member, name)
    if header.header_nbytes + header.nbytes != info.file_size:
        raise FormatError(
            f"{shown(name)} must take {header.nbytes} bytes after its header",
            got=info.file_size - header.header_nbytes,
        )
    return header


def _read_array(member: IO[bytes], info: zipfile.ZipInfo, name: str) -> np.ndarray:
    header = _read_header(member, info, name)
    data = member.read(header.nbytes)
    # Reading past the end makes `zipfile` compare the checksum.
    if len(data) != header.nbytes or member.read(1):
        raise FormatError(f"{shown(name)} must take {header.nbytes} bytes", got=len(data))
    flat: np.ndarray[Any, Any] = np.frombuffer(data, header.dtype)
    if header.fortran_order:
        return flat.reshape(header.shape[::-1]).T
    return flat.reshape(header.shape)


@contextmanager
def _damage_named(name: str) -> Iterator[None]:
    """Turn what `zipfile` raises on damaged files into a `FormatError`."""
    try:
        yield
    except (ZipError, OSError):
        raise
    except _DAMAGE as error:
        raise FormatError(f"{name} must be a whole .npz file", got=shown(str(error))) from error
