"""Parts of tensors are parts of their bits."""

import ml_dtypes
import numpy as np
import pytest

from pallas_kernels import encode
from tests.support.equal import bits
from zipjax import compress
from zipjax.files.parts import decoded_parts
from zipjax.files.safetensors_file import new_safetensors_header, safetensors_prefix
from zipjax.files.saving import save_sources
from zipjax.files.tensor_file import open_tensors

DTYPES = (
    ml_dtypes.bfloat16,
    np.float16,
    np.float32,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    np.int32,
)


def draw(dtype, num_elems: int) -> np.ndarray:
    """Exponents from all over, so that there are patches and rare ones in every tile."""
    rng = np.random.default_rng(num_elems)
    x = rng.normal(size=num_elems) * 0.01 * np.exp(3 * rng.normal(size=num_elems))
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_elems", [0, 1, 4096, 12_289, 100_003])
@pytest.mark.parametrize("part_elems", [777, 4096, 10_000, 1 << 20])
def test_parts_make_the_whole(dtype, num_elems, part_elems):
    x = draw(dtype, num_elems)
    parts = list(decoded_parts(compress(x), part_elems))
    assert all(part.size == part_elems for part in parts[:-1])
    whole = np.concatenate([np.empty(0, x.dtype), *parts])
    np.testing.assert_array_equal(bits(whole), bits(x))


def test_files_give_parts(tmp_path):
    x = draw(ml_dtypes.bfloat16, 20_000).reshape(100, 200)
    header = new_safetensors_header({"x": (x.dtype, x.shape)}, {})
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_prefix(header) + x.tobytes())
    save_sources(tmp_path / "x.zipj", open_tensors(path).sources)
    for name in ("x.safetensors", "x.zipj"):
        (source,) = open_tensors(tmp_path / name).sources
        parts = list(source.read_parts(6_000))
        np.testing.assert_array_equal(bits(np.concatenate(parts)), bits(x))


def test_a_layout_for_kernels_comes_in_parts_too():
    x = (np.random.default_rng(0).standard_normal((256, 300)) * 0.02).astype(ml_dtypes.bfloat16)
    for layout in ("mma16x256", "mma256x16"):
        tensor = encode(np.tile(x, (2, 2)), layout=layout)
        assert tensor.layout == layout
        parts = list(decoded_parts(tensor, 70_001))
        assert [part.size for part in parts[:-1]] == [70_001] * (len(parts) - 1)
        want = np.tile(x, (2, 2)).reshape(-1)
        np.testing.assert_array_equal(np.concatenate(parts).view(np.uint16), want.view(np.uint16))
