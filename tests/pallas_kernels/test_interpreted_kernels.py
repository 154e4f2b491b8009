"""The kernels whole, in Pallas' interpret mode: pipeline, barriers, indices, device functions on
arrays.

Interpret mode has no `wgmma` with operands in registers, so Hopper's product is tested by its parts
(test_lanes.py) and compiled (test_compiled_kernels.py); Blackwell's runs here.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import A100, B200, DecodeMatmulConfig, assume, encode
from pallas_kernels.codecs import triple_bitmap_mma
from pallas_kernels.ops.decode import mosaic_gpu as decode_kernel
from pallas_kernels.ops.decode_matmul import mosaic_gpu as product_kernel
from pallas_kernels.ops.decode_matmul.call import Call
from pallas_kernels.ops.encode import mosaic_gpu as encode_kernel
from pallas_kernels.ops.grouped_decode_matmul import mosaic_gpu as grouped_kernel
from pallas_kernels.ops.grouped_decode_matmul.call import Call as GroupedCall
from tests.pallas_kernels.interpret import check_no_race, interpret_params
from tests.pallas_kernels.mma_cases import PAIR_DTYPES, awkward, bits_of, gaussian

# jax 0.10 compiles what a thread does for each thread by itself, so this takes minutes there.
IS_FAST = jax.__version_info__ >= (0, 12)
needs_newer_jax = pytest.mark.skipif(
    not IS_FAST, reason="interpret mode of jax 0.10 takes minutes a kernel"
)
pytestmark = [] if IS_FAST else [pytest.mark.slow]
F32 = np.dtype(np.float32)


def check_product(y, x, w):
    exact = x.astype(np.float64) @ w.astype(np.float64)
    size = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64))
    assert np.isfinite(exact).all()
    assert (np.abs(np.asarray(y) - exact) <= size * (x.shape[-1] + 1) * 2.0**-24).all()


@pytest.mark.parametrize(
    "gpu", [B200, pytest.param(A100, marks=needs_newer_jax)], ids=lambda gpu: gpu.name
)
def test_decode_matmul(gpu):
    """Two shares of the depth, rows of x that do not fill a block, columns that fill no tile."""
    w, x = gaussian((500, 120), PAIR_DTYPES[0]), gaussian((3, 500), PAIR_DTYPES[0], seed=1)
    w.reshape(-1)[::97] = 0
    call = Call(transpose=False, activation=None, out_dtype=F32, hold="matrix", implementation=None)
    config = DecodeMatmulConfig(num_stages=2, split_k=2)
    tensor = encode(jnp.asarray(w), layout="mma256x16")
    with assume(gpu):
        y = product_kernel.decode_matmul(
            call, jnp.asarray(x), tensor, None, config=config, interpret=interpret_params()
        )
    check_product(y, x, w)
    check_no_race()


@needs_newer_jax
def test_grouped_decode_matmul():
    """An expert without rows, one with more than a block, rows of no group."""
    w, x = gaussian((3, 120, 256), PAIR_DTYPES[1]), gaussian((14, 256), PAIR_DTYPES[1], seed=1)
    sizes = jnp.array([9, 0, 3])
    call = GroupedCall(transpose=True, out_dtype=F32, implementation=None)
    tensor = encode(jnp.asarray(w), layout="mma16x256")
    with assume(B200):
        y = grouped_kernel.grouped_matmul(
            call, jnp.asarray(x), tensor, sizes, interpret=interpret_params()
        )
    check_product(y[:9], x[:9], w[0].T)
    check_product(y[9:12], x[9:12], w[2].T)
    assert not np.asarray(y[12:]).any()
    check_no_race()


@needs_newer_jax
@pytest.mark.parametrize("layout", ["mma16x256", "mma256x16"])
def test_decode(layout):
    w = awkward((250, 510) if layout == "mma16x256" else (510, 250), PAIR_DTYPES[0])
    with assume(B200):
        y = decode_kernel.decode(
            encode(jnp.asarray(w), layout=layout), interpret=interpret_params()
        )
    np.testing.assert_array_equal(bits_of(y), bits_of(w))
    check_no_race()


@needs_newer_jax
@pytest.mark.parametrize("layout", ["mma16x256", "mma256x16"])
def test_encode(layout):
    x = awkward((250, 510) if layout == "mma16x256" else (510, 250), PAIR_DTYPES[0])
    want = triple_bitmap_mma.encode(x, layout)
    with assume(B200):
        words = encode_kernel.encode_words(
            jnp.asarray(x), want["exponents"], layout, interpret=interpret_params()
        )
    np.testing.assert_array_equal(np.asarray(words), want["words"])
    check_no_race()


def test_the_comparison_can_fail():
    x, w = gaussian((1, 16), PAIR_DTYPES[0]), gaussian((16, 1), PAIR_DTYPES[0])
    with pytest.raises(AssertionError):
        check_product(jnp.zeros((1, 1)) + jax.numpy.float32(1), x, w)
