"""`grouped_decode_matmul`: every row by its own expert, with the bits of the plain stack."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import ArgumentError, dtype_from_name, grouped_decode_matmul
from tests.pallas_kernels.matrix_cases import coded, error_bound, patched, rows_of
from tests.support.equal import assert_same_bits
from tests.support.weights import gaussian

F32 = np.dtype(np.float32)


def check_error(y, x, weights, group_sizes, transpose):
    """Each group by itself against float64; what belongs to no group is zero."""
    start = 0
    for matrix, size in zip(weights, group_sizes, strict=True):
        rows = slice(start, min(start + int(size), x.shape[0]))
        w = matrix.T if transpose else matrix
        error = np.abs(
            np.asarray(y[rows], np.float64) - x[rows].astype(np.float64) @ w.astype("f8")
        )
        assert (error <= error_bound(x[rows], w, y.dtype)).all()
        start = rows.stop
    assert not np.asarray(y[start:]).view(f"u{y.dtype.itemsize}").any()


def check(name, num_rows, sizes, depth, num_out, transpose):
    shape = (len(sizes), num_out, depth) if transpose else (len(sizes), depth, num_out)
    weights, x = gaussian(dtype_from_name(name), shape), rows_of(name, (num_rows, depth))
    sizes = np.array(sizes, np.int32)
    x[sizes.sum() :] = np.nan  # of no effect
    product = jax.jit(lambda x, w: grouped_decode_matmul(x, w, sizes, transpose=transpose))
    y = product(x, coded(weights))
    assert_same_bits(y, product(x, jnp.asarray(weights)))
    check_error(y, x, weights, sizes, transpose)


@pytest.mark.parametrize(
    "name, transpose",
    [("bfloat16", False), ("bfloat16", True), ("float16", True), ("float32", False)],
)
def test_ragged_groups(name, transpose):
    """Longer than a block, of one row, empty, and rows of nobody."""
    check(name, 300, [141, 0, 1, 155], 37, 53, transpose)


@pytest.mark.parametrize(
    "num_rows, sizes, depth, num_out",
    [
        (1, [0, 0], 3, 2),
        (1, [0, 1], 1, 1),
        (128, [128], 5, 1),
        (129, [128, 1], 1, 5),
        (0, [0], 4, 4),
    ],
)
def test_narrow_shapes(num_rows, sizes, depth, num_out):
    check("bfloat16", num_rows, sizes, depth, num_out, False)


def test_groups_beyond_the_last_row_are_cut():
    weights, x = gaussian(dtype_from_name("float32"), (2, 8, 8)), rows_of("float32", (5, 8))
    y = grouped_decode_matmul(x, coded(weights), np.array([3, 9]))
    check_error(y, x, weights, [3, 2], False)


def test_experts_full_of_patches():
    """Infinities and NaN stay with their expert."""
    weights = gaussian(dtype_from_name("bfloat16"), (3, 40, 50))
    weights[1] = patched("bfloat16", (3, 40, 50))[1]
    x, sizes = rows_of("bfloat16", (9, 40)), np.array([4, 2, 3])
    y = grouped_decode_matmul(x, coded(weights), sizes)
    assert_same_bits(y, grouped_decode_matmul(x, jnp.asarray(weights), sizes))
    assert not np.isfinite(np.asarray(y[4:6], F32)).all()
    check_error(y[:4], x[:4], weights[:1], [4], False)
    check_error(y[6:], x[6:], weights[2:], [3], False)


@pytest.mark.parametrize("transpose", [False, True])
def test_gradient_in_x(transpose):
    shape = (3, 24, 31) if transpose else (3, 31, 24)
    weights, x = gaussian(dtype_from_name("float32"), shape), rows_of("float32", (20, 31))
    sizes = np.array([7, 0, 10])

    def gradient(weights):
        product = lambda x: grouped_decode_matmul(x, weights, sizes, transpose=transpose)
        return jax.jit(jax.grad(lambda x: (product(x) * dy).sum()))(x)

    dy = jnp.asarray(rows_of("float32", (20, 24)))
    dx = gradient(coded(weights))
    assert_same_bits(dx, gradient(jnp.asarray(weights)))
    check_error(dx, np.asarray(dy), weights, sizes, not transpose)


def test_the_weights_are_constants():
    x, sizes = jnp.ones((2, 8)), np.array([1, 1])
    total = lambda w: grouped_decode_matmul(x, w, sizes).sum()
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs"):
        jax.grad(total)(coded(np.ones((2, 8, 8), np.float32)))
    with pytest.raises(ArgumentError, match=r"no gradient in its weights; train plain .*LoRA"):
        jax.grad(total)(jnp.ones((2, 8, 8)))


@pytest.mark.parametrize("compressed", [True, False])
def test_one_expert_is_held(compressed):
    """By the compiler's account; and nothing of T x E elements or more than a matrix."""
    weights, x = gaussian(dtype_from_name("bfloat16"), (16, 128, 1024)), jnp.ones((32, 128))
    product = jax.jit(lambda x, w: grouped_decode_matmul(x, w, np.full(16, 2)))
    operand = coded(weights) if compressed else jnp.asarray(weights)
    compiled = product.lower(x.astype(jnp.bfloat16), operand).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < weights.nbytes / 2


def test_refusals():
    weights, x, sizes = coded(np.ones((2, 8, 4), np.float32)), jnp.ones((3, 8)), np.array([1, 2])
    with pytest.raises(ArgumentError, match="must be a CompressedTensor; got list"):
        grouped_decode_matmul(x, [1], sizes)
    with pytest.raises(ArgumentError, match="a stack of matrices"):
        grouped_decode_matmul(x, coded(np.ones((8, 4), np.float32)), sizes)
    with pytest.raises(ArgumentError, match="of floats"):
        grouped_decode_matmul(x, jnp.ones((2, 8, 4), jnp.int32), sizes)
    with pytest.raises(ArgumentError, match=r"K = 4; got \(3, 8\)"):
        grouped_decode_matmul(x, weights, sizes, transpose=True)
    with pytest.raises(
        ArgumentError, match=r"2 integers; got int64\[1\]|2 integers; got int32\[1\]"
    ):
        grouped_decode_matmul(x, weights, sizes[:1])
    with pytest.raises(ArgumentError, match="x must be one of"):
        grouped_decode_matmul(x.astype(jnp.int32), weights, sizes)
    with pytest.raises(ArgumentError, match="preferred_element_type must be a float"):
        grouped_decode_matmul(x, weights, sizes, preferred_element_type=jnp.int8)
