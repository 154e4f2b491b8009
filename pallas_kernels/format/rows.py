"""Layout `rows16`: three bits of each element of a tile in three words of 16 bits a lane.

A tile is [16 rows, 256 lanes]. Word k (0 to 2) of a lane holds rows 5k to 5k + 4, three bits each,
row 5k in the lowest; its top bit is bit k of row 15:

    word[k] = c[5k] | c[5k+1] << 3 | c[5k+2] << 6 | c[5k+3] << 9 | c[5k+4] << 12 | ((c[15] >> k) &
    1) << 15

So 16 codes of 3 bits fill 48 bits exactly, and a shift by a constant finishes a whole row.
"""

import numpy as np

from pallas_kernels.format.spec import ROWS_PER_WORD, TILE_LANES, TILE_ROWS, WORDS_PER_LANE

_SHIFTS = np.arange(ROWS_PER_WORD, dtype=np.uint16)[None, None, :, None] * np.uint16(3)
_TOP = np.arange(WORDS_PER_LANE, dtype=np.uint16)[None, :, None]


def pack_rows(codes: np.ndarray) -> np.ndarray:
    """Pack three bits of each element.

    Args:
        codes: unsigned [T, 16, 256], each below 8.

    Returns:
        words: uint16 [T, 3, 256].
    """
    codes = codes.astype(np.uint16)
    low = codes[:, :15].reshape(-1, WORDS_PER_LANE, ROWS_PER_WORD, TILE_LANES) << _SHIFTS
    top = ((codes[:, 15:] >> _TOP) & np.uint16(1)) << np.uint16(15)
    return np.bitwise_or.reduce(low, axis=2) | top


def unpack_rows(words: np.ndarray) -> np.ndarray:
    """Undo `pack_rows`.

    Args:
        words: uint16 [T, 3, 256].

    Returns:
        codes: uint16 [T, 16, 256].
    """
    low = ((words[:, :, None] >> _SHIFTS) & np.uint16(7)).reshape(-1, TILE_ROWS - 1, TILE_LANES)
    top = np.bitwise_or.reduce((words >> np.uint16(15)) << _TOP, axis=1, keepdims=True)
    return np.concatenate([low, top], axis=1)
