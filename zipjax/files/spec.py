"""The numbers of docs/format.md, section 2: magic, version, alignment and limits."""

# 0x89 is no text, CR LF is spoilt by text-mode transfers, 0x1a ends a `type` on Windows.
MAGIC = b"\x89ZIPJ\r\n\x1a"
VERSION = 1

HEADER_NBYTES = 64
CHUNK_ALIGN_NBYTES = 64
"""Every chunk starts on a multiple of this: a cache line, and what XLA wants of a buffer."""

INDEX_NBYTES_MAX = 64 << 20
"""About 400,000 streams; a bound on what a reader parses before it knows anything."""

JSON_DEPTH_MAX = 8
"""The deepest value of an index is a dimension: tensors > tensor > streams > stream > shape."""

JSON_VALUES_MAX = 1 << 22
METADATA_ENTRIES_MAX = 1 << 16
NAME_NBYTES_MAX = 1024
NDIM_MAX = 64
"""What NumPy can hold."""

NBYTES_MAX = (1 << 63) - 1
"""Sizes and offsets fit a signed 64-bit integer."""

assert len(MAGIC) == 8
assert HEADER_NBYTES % CHUNK_ALIGN_NBYTES == 0, "the first chunk follows the header at once"


def padded_nbytes(nbytes: int) -> int:
    """Bytes that a chunk of `nbytes` takes up in the file, zero padding included."""
    return -(-nbytes // CHUNK_ALIGN_NBYTES) * CHUNK_ALIGN_NBYTES
