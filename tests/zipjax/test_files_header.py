"""The 64 bytes at the start: what they hold and what is said when they are wrong."""

import struct

import pytest

from zipjax import ChecksumError, FormatError
from zipjax.files.checksum import checksum64
from zipjax.files.header import Header, pack_header, parse_header
from zipjax.files.spec import MAGIC

HEADER = Header(file_nbytes=1000, index_offset=640, index_nbytes=360, index_checksum=7)


def _with(offset: int, kind: str, value: int) -> bytes:
    fields = bytearray(pack_header(HEADER)[:56])
    struct.pack_into(kind, fields, offset, value)
    return bytes(fields) + struct.pack("<Q", checksum64(bytes(fields)))


def test_a_header_is_64_bytes_and_comes_back():
    data = pack_header(HEADER)
    assert len(data) == 64
    assert parse_header(data, file_nbytes=1000) == HEADER


def test_the_bytes_are_those_of_the_format():
    assert pack_header(HEADER).hex(" ", 8) == (
        "895a49504a0d0a1a 0100000000000000 e803000000000000 8002000000000000 "
        "6801000000000000 0700000000000000 0000000000000000 "
        + struct.pack("<Q", checksum64(pack_header(HEADER)[:56])).hex()
    )


@pytest.mark.parametrize(
    "data, text",
    [
        (b"", "an empty file"),
        (MAGIC[:3], "truncated"),
        (pack_header(HEADER)[:63], "63 bytes"),
        (b"\x00" * 64, "never finished"),
        (b"PK\x03\x04" + bytes(60), "no .zipj file"),
        (MAGIC.replace(b"\r\n", b"\n") + bytes(57), "binary mode"),
        (b"\x09" + pack_header(HEADER)[1:], "binary mode"),
        (_with(8, "<I", 2), "got version 2"),
        (_with(12, "<I", 4), "got 0x00000004"),
        (_with(48, "<Q", 1), "reserved"),
        (_with(32, "<Q", 1 << 40), "at most"),
        (_with(24, "<Q", 100), "multiple of 64"),
        (_with(24, "<Q", 704), "704 + 360 = 1064"),
    ],
)
def test_what_is_wrong_is_said(data, text):
    with pytest.raises(FormatError) as error:
        parse_header(data, file_nbytes=1000)
    assert text in str(error.value)


@pytest.mark.parametrize("nbytes, text", [(900, "last 100 bytes"), (1064, "last 64 bytes")])
def test_a_wrong_size_names_both_sizes(nbytes, text):
    with pytest.raises(FormatError) as error:
        parse_header(pack_header(HEADER), file_nbytes=nbytes)
    assert "1000 bytes" in str(error.value) and f"got {nbytes} bytes" in str(error.value)
    assert text in str(error.value)


def test_damage_is_told_from_the_future():
    data = bytearray(pack_header(HEADER))
    data[20] ^= 1
    with pytest.raises(ChecksumError, match="damaged"):
        parse_header(bytes(data), file_nbytes=1000)
