"""The worked example of docs/format.md, section 1.4, byte by byte."""

import ml_dtypes
import numpy as np

from pallas_kernels.codecs import triple_bitmap


def test_the_worked_example():
    x = np.array([1.0, -2.5, 0.0078125, 0.0, -0.0, 3.0, 1e-30, 0.5], ml_dtypes.bfloat16)
    streams = triple_bitmap.encode(x)
    shown = {
        "exponents": "79001b787979",
        "codes": "060007000000000000000700000005000000",
        "remainder": "00a0000080402200",
        "patch_offsets": "0000000004000000",
        "patches": "0202000300040106",
        "rare_tiles": "",
        "rare_entries": "",
    }
    for name, stream in streams.items():
        assert stream.tobytes().hex().startswith(shown.pop(name)), name
    assert not shown
    assert triple_bitmap.decode(streams, x.dtype, x.shape).tobytes() == x.tobytes()
