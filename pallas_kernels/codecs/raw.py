"""Codec `raw`: the elements' bytes as they are, for what does not compress."""

import numpy as np


def encode(x: np.ndarray) -> dict[str, np.ndarray]:
    """The bytes of `x`.

    Args:
        x: any native dtype and shape, contiguous or not.

    Returns:
        raw: uint8 [x.nbytes], little-endian elements in C order.
    """
    return {"raw": np.ascontiguousarray(x).reshape(-1).view(np.uint8)}


def decode(streams: dict[str, np.ndarray], dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Undo `encode`: a new array of `dtype` and `shape`."""
    return np.frombuffer(streams["raw"].tobytes(), dtype).reshape(shape).copy()
