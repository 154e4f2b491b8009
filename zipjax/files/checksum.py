"""Checksums of stored bytes and digests of tensors: against damage, not against malice."""

import numpy as np
import xxhash


def checksum64(data: bytes | memoryview) -> int:
    """xxh3_64 of contiguous bytes, as stored in the header."""
    return xxhash.xxh3_64_intdigest(data)


def checksum_text(*parts: bytes | memoryview) -> str:
    """xxh3_64 of contiguous bytes in parts, as 16 hexadecimal digits, as stored in the index."""
    hasher = xxhash.xxh3_64()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()


def tensor_digest(x: np.ndarray) -> str:
    """xxh3_128 of a tensor's bytes in C order, as 32 hexadecimal digits.

    Args:
        x: any dtype [...], any memory order; only the bytes count, not dtype or shape.
    """
    return xxhash.xxh3_128_hexdigest(tensor_bytes(x).data)


def tensor_bytes(x: np.ndarray) -> np.ndarray:
    """uint8 [x.nbytes], the bytes of `x` in C order; a view where `x` is contiguous."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)
