"""The 64 bytes at the start of a container: where the index lies and what it must hash to."""

import struct
from dataclasses import dataclass

from pallas_kernels import ChecksumError, FormatError
from zipjax.files.checksum import checksum64
from zipjax.files.spec import (
    CHUNK_ALIGN_NBYTES,
    HEADER_NBYTES,
    INDEX_NBYTES_MAX,
    MAGIC,
    VERSION,
)

# 8s magic | I version | I flags | Q file | Q index offset | Q index | Q index xxh3_64 | Q reserved
_FIELDS = struct.Struct("<8sIIQQQQQ")
_CHECKSUM = struct.Struct("<Q")
assert _FIELDS.size + _CHECKSUM.size == HEADER_NBYTES


@dataclass(frozen=True, kw_only=True)
class Header:
    """Where the index of a container lies.

    Invariants:
        index_offset % 64 == 0 and index_offset >= 64
        index_offset + index_nbytes == file_nbytes
    """

    file_nbytes: int
    index_offset: int
    index_nbytes: int
    index_checksum: int


def pack_header(header: Header) -> bytes:
    """The 64 bytes of `header`."""
    fields = _FIELDS.pack(
        MAGIC,
        VERSION,
        0,
        header.file_nbytes,
        header.index_offset,
        header.index_nbytes,
        header.index_checksum,
        0,
    )
    return fields + _CHECKSUM.pack(checksum64(fields))


def parse_header(data: bytes, *, file_nbytes: int) -> Header:
    """Read the header of a file that is `file_nbytes` long.

    Args:
        data: the first 64 bytes of the file, or fewer where the file is shorter.
        file_nbytes: true size of the file.

    Raises:
        ChecksumError: the header was damaged.
        FormatError: the file is foreign, truncated, too long, or of another version.
    """
    _require_magic(data)
    if len(data) < HEADER_NBYTES:
        raise FormatError(
            f"a .zipj file must hold a header of {HEADER_NBYTES} bytes",
            got=f"{len(data)} bytes",
            fix="the file is truncated: copy it again",
        )
    fields, (stored_checksum,) = data[: _FIELDS.size], _CHECKSUM.unpack_from(data, _FIELDS.size)
    _, version, flags, declared_nbytes, offset, nbytes, index_checksum, reserved = _FIELDS.unpack(
        fields
    )
    intact = checksum64(fields) == stored_checksum
    # A newer version may place its checksum elsewhere: name the version before judging the rest.
    if version != VERSION:
        raise _unknown_version(version)
    if not intact:
        raise ChecksumError("the header of the .zipj file is damaged", fix="copy the file again")
    if flags != 0:
        raise FormatError(
            "the header's flags must be 0 in version 1",
            got=f"{flags:#010x}",
            fix="read it with a newer zipjax",
        )
    if reserved != 0:
        raise FormatError("the header's reserved field must be 0", got=f"{reserved:#018x}")
    _require_size(declared_nbytes, file_nbytes)
    _require_index_range(offset, nbytes, file_nbytes)
    return Header(
        file_nbytes=file_nbytes,
        index_offset=offset,
        index_nbytes=nbytes,
        index_checksum=index_checksum,
    )


def _require_magic(data: bytes) -> None:
    if data[: len(MAGIC)] == MAGIC:
        return
    if not data:
        raise FormatError("a .zipj file must start with its magic bytes", got="an empty file")
    if data[: len(MAGIC)] == MAGIC[: len(data)]:
        raise FormatError(
            f"a .zipj file must hold a header of {HEADER_NBYTES} bytes",
            got=f"{len(data)} bytes",
            fix="the file is truncated: copy it again",
        )
    if data[1:5] == MAGIC[1:5]:
        raise FormatError(
            "the magic bytes are spoilt, as by a transfer in text mode",
            got=data[: len(MAGIC)].hex(" "),
            fix="copy the file again in binary mode",
        )
    if not any(data):
        fix = "the file was never finished, or its disk lost it: write it again"
    else:
        fix = "this is no .zipj file"
    raise FormatError(
        f"a .zipj file must start with {MAGIC.hex(' ')}", got=data[: len(MAGIC)].hex(" "), fix=fix
    )


def _unknown_version(version: int) -> FormatError:
    return FormatError(
        f"the container's version must be {VERSION}",
        got=f"version {version}",
        fix="read it with a newer zipjax, or copy it again if it should be this version",
    )


def _require_size(declared_nbytes: int, file_nbytes: int) -> None:
    if declared_nbytes > file_nbytes:
        raise FormatError(
            f"the file must be {declared_nbytes} bytes long",
            got=f"{file_nbytes} bytes",
            fix=f"the last {declared_nbytes - file_nbytes} bytes are missing: copy it again",
        )
    if declared_nbytes < file_nbytes:
        raise FormatError(
            f"the file must be {declared_nbytes} bytes long",
            got=f"{file_nbytes} bytes",
            fix=f"remove the last {file_nbytes - declared_nbytes} bytes",
        )


def _require_index_range(offset: int, nbytes: int, file_nbytes: int) -> None:
    if nbytes > INDEX_NBYTES_MAX:
        raise FormatError(f"the index must hold at most {INDEX_NBYTES_MAX} bytes", got=nbytes)
    if offset < HEADER_NBYTES or offset % CHUNK_ALIGN_NBYTES != 0:
        raise FormatError(
            f"the index must start on a multiple of {CHUNK_ALIGN_NBYTES} after the header",
            got=f"offset {offset}",
        )
    if offset + nbytes != file_nbytes:
        raise FormatError(
            f"the index must end where the file ends, at {file_nbytes}",
            got=f"{offset} + {nbytes} = {offset + nbytes}",
        )
