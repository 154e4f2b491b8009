"""`decode_matmul`: the bits of the plain product, its error, its gradient, and its refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallas_kernels import (
    ArgumentError,
    UnsupportedError,
    decode_matmul,
    dtype_from_name,
    encode,
)
from pallas_kernels.ops.decode_matmul import reference
from pallas_kernels.ops.decode_matmul.call import ACTIVATIONS
from tests.pallas_kernels.matrix_cases import (
    DTYPES,
    bit_equal_gradient,
    coded,
    error_bound,
    patched,
    rows_of,
)
from tests.support.equal import assert_same_bits
from tests.support.weights import every_pattern, gaussian

F32 = np.dtype(np.float32)
OTHERS = sorted(set(ACTIVATIONS) - {"silu"})
either = pytest.mark.parametrize("transpose", [False, pytest.param(True, marks=pytest.mark.slow)])


def plain(x, w, transpose=False):
    return jnp.matmul(x, w.T if transpose else w)


def stored(name, depth, num_out, transpose, make=None):
    shape = (num_out, depth) if transpose else (depth, num_out)
    return make(name, shape) if make else gaussian(dtype_from_name(name), shape)


def check(x, w, transpose, tensor=None):
    """The bits are those of the plain product; also traced."""
    y = check_untraced(x, w, transpose, tensor)
    tensor = coded(w) if tensor is None else tensor
    traced = jax.jit(lambda x, t: decode_matmul(x, t, transpose=transpose))(x, tensor)
    assert_same_bits(traced, jax.jit(lambda x, w: plain(x, w, transpose))(x, w))
    return y


def check_untraced(x, w, transpose, tensor=None):
    tensor = coded(w) if tensor is None else tensor
    x, w = jnp.asarray(x), jnp.asarray(w)
    y = decode_matmul(x, tensor, transpose=transpose)
    assert_same_bits(y, plain(x, w, transpose))
    return y


def check_error(y, x, w, transpose):
    w = np.asarray(w.T if transpose else w)
    error = np.abs(np.asarray(y, np.float64) - np.asarray(x, np.float64) @ w.astype(np.float64))
    assert (error <= error_bound(x, w, y.dtype)).all()


@pytest.mark.parametrize(
    "name, transpose",
    [("bfloat16", False), ("bfloat16", True), ("float16", False), ("float32", True)],
)
def test_bits_and_error_of_primes(name, transpose):
    x, w = rows_of(name, (3, 211)), stored(name, 211, 307, transpose)
    check_error(check(x, w, transpose), x, w, transpose)


@pytest.mark.parametrize(
    "rows, depth, num_out", [(1, 300, 400), (2, 1, 5), (2, 5, 1), (1, 1, 1), (0, 3, 4), (2, 0, 3)]
)
def test_bits_of_narrow_shapes(rows, depth, num_out):
    x, w = rows_of("bfloat16", (rows, depth)), stored("bfloat16", depth, num_out, False)
    tensor = coded(w) if w.size else encode(jnp.asarray(w))
    check_error(check_untraced(x, w, False, tensor), x, w, False)


@pytest.mark.parametrize("name", ["bfloat16", "float32"])
def test_bits_of_weights_full_of_patches(name):
    """Among them NaN payloads, infinities and subnormals: what the plain product makes of them."""
    w = stored(name, 130, 190, False, patched)
    assert not np.isfinite(w.astype(F32)).all()
    check(rows_of(name, (2, 130)), w, False)


def test_one_row_picks_the_bits_of_every_pattern():
    """x = [1] gives each weight itself: -0, subnormals and infinities too; NaN stays NaN."""
    w = every_pattern(dtype_from_name("bfloat16"))[None]
    y = np.asarray(decode_matmul(jnp.ones((1, 1), w.dtype), coded(w)))
    is_normal = (np.abs(w.astype(F32)) >= 2.0**-126) & np.isfinite(w.astype(F32))
    assert_same_bits(y[is_normal], w[is_normal])
    assert_same_bits(y, plain(jnp.ones((1, 1), w.dtype), jnp.asarray(w)))


def test_raw_weights_and_leading_axes():
    x, w = rows_of("float32", (2, 3, 40)), stored("float32", 40, 30, False)
    tensor = encode(jnp.asarray(w))
    assert tensor.codec == "raw"
    check(x, w, False, tensor)
    check_untraced(x[0, 0], w, False, tensor)


def test_dtypes_that_differ():
    x, w = jnp.asarray(rows_of("bfloat16", (4, 64))), stored("float32", 64, 80, False)
    y = decode_matmul(x, coded(w))
    assert_same_bits(y, plain(x, jnp.asarray(w)).astype(x.dtype))
    wide = decode_matmul(x, coded(w.astype(x.dtype)), preferred_element_type=jnp.float32)
    want = jnp.matmul(x, jnp.asarray(w).astype(x.dtype), preferred_element_type=jnp.float32)
    assert_same_bits(wide, want)
    narrow = w.astype(dtype_from_name("float8_e4m3fn"))
    assert_same_bits(decode_matmul(x, coded(narrow)), plain(x, jnp.asarray(narrow).astype(x.dtype)))


def test_numpy_streams():
    x, w = rows_of("bfloat16", (2, 100)), stored("bfloat16", 100, 90, False)
    assert_same_bits(decode_matmul(x, encode(w)), plain(jnp.asarray(x), jnp.asarray(w)))


@pytest.mark.parametrize(
    "activation", [None, "silu", *(pytest.param(a, marks=pytest.mark.slow) for a in OTHERS)]
)
def test_epilogue_and_its_gradients(activation):
    x, bias = jnp.asarray(rows_of("bfloat16", (4, 96))), jnp.asarray(rows_of("bfloat16", (40,)))
    w = stored("bfloat16", 96, 40, False)

    def fused(x, bias, weight):
        return decode_matmul(x, weight, bias=bias, activation=activation)

    def apart(x, bias, weight):
        z = jnp.matmul(x, weight, preferred_element_type=F32) + bias.astype(F32)[None]
        return (ACTIVATIONS[activation](z) if activation else z).astype(x.dtype)

    def of(product):
        total = lambda x, b, w: (product(x, b, w).astype(F32) ** 2).sum()
        return jax.jit(lambda *a: (product(*a), jax.grad(total, (0, 1))(*a)))

    assert_same_bits(of(fused)(x, bias, coded(w)), of(apart)(x, bias, jnp.asarray(w)))


def test_gradient_in_x():
    x, w = jnp.asarray(rows_of("bfloat16", (5, 96))), stored("bfloat16", 96, 70, False)
    assert_same_bits(*bit_equal_gradient(decode_matmul, coded(w), plain, jnp.asarray(w), x))


def test_gradient_in_x_of_a_transposed_weight():
    """Bits are not promised here."""
    w, dy = stored("bfloat16", 96, 70, True), rows_of("bfloat16", (5, 70))
    total = lambda x: (decode_matmul(x, coded(w), transpose=True) * dy).astype(F32).sum()
    dx = jax.jit(jax.grad(total))(jnp.ones((5, 96), w.dtype))
    check_error(dx, dy, w, False)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_bits_between_roundings_that_xla_leaves_out(name):
    """On CPU a product of bfloat16 is one of float32, about which XLA may leave out roundings."""
    x, w = jnp.asarray(rows_of("float32", (3, 512))), stored(name, 512, 1024, False)

    def layer(product, x, w):
        x = (x * jax.lax.rsqrt((x**2).mean())).astype(w.dtype)
        return jnp.tanh(product(x, w).astype(F32))

    def value_and_gradient(product, w):
        both = lambda x: (layer(product, x, w), jax.grad(lambda x: layer(product, x, w).sum())(x))
        return jax.jit(both)(x)

    ours, theirs = (value_and_gradient(*of) for of in ((decode_matmul, coded(w)), (plain, w)))
    assert_same_bits(ours, theirs)


def test_the_weight_is_a_constant():
    """What the docstring says of who asks for its gradient."""
    x, w = jnp.asarray(rows_of("bfloat16", (2, 64))), coded(stored("bfloat16", 64, 64, False))
    total = lambda x, w: decode_matmul(x, w).astype(F32).sum()
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs"):
        jax.grad(total, argnums=1)(x, w)
    gradient = jax.grad(total, argnums=1, allow_int=True)(x, w)
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {jax.dtypes.float0}
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: decode_matmul(x, w), (x,), (x,))


def test_vmap_over_rows_and_over_weights():
    w = np.stack([stored("bfloat16", 64, 70, False), stored("bfloat16", 64, 70, False) * 2])
    x = jnp.asarray(rows_of("bfloat16", (2, 3, 64)))
    many = jax.vmap(lambda x: decode_matmul(x, coded(w[0])))(x)
    np.testing.assert_array_equal(
        many.astype(F32), jax.vmap(lambda x: plain(x, jnp.asarray(w[0])))(x).astype(F32)
    )
    both = [coded(matrix) for matrix in w]
    room = max(tensor.streams["patches"].size for tensor in both)
    for tensor in both:
        patches = tensor.streams["patches"]
        tensor.streams["patches"] = jnp.pad(patches, (0, room - patches.size))
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *both)
    many = jax.vmap(decode_matmul)(x, stack)
    want = jax.vmap(plain)(x, jnp.asarray(w))
    np.testing.assert_array_equal(many.astype(F32), want.astype(F32))


@either
def test_blocks_are_within_the_error(transpose, monkeypatch):
    monkeypatch.setattr(reference, "BLOCK_ELEMS", 9_000)
    x, w = rows_of("bfloat16", (3, 211)), stored("bfloat16", 211, 307, transpose)
    weight = coded(w)
    product = lambda x: decode_matmul(x, weight, transpose=transpose, hold="block")
    y = jax.jit(product)(x)
    check_error(y, x, w, transpose)
    assert "while" in str(jax.make_jaxpr(product)(x))
    gradient = jax.grad(lambda x: product(x).astype(F32).sum())(jnp.asarray(x))
    dy = np.ones((3, 307), w.dtype)
    check_error(gradient, dy, w, not transpose)


@either
def test_blocks_hold_no_matrix(transpose):
    """The compiler's own account: less than the decoded matrix, of which a block is a sixteenth."""
    x, w = rows_of("bfloat16", (1, 2048)), stored("bfloat16", 2048, 2048, transpose)
    held = {}
    for hold in ("matrix", "block"):
        product = jax.jit(lambda x, t, h=hold: decode_matmul(x, t, transpose=transpose, hold=h))
        held[hold] = product.lower(x, coded(w)).compile().memory_analysis().temp_size_in_bytes
    assert held["matrix"] >= w.nbytes
    assert held["block"] < w.nbytes / 2


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_program_of_many_layers_holds_one_matrix_at_a_time(in_a_loop):
    """Or two or three, with what they are made from; not all of them, decoded beforehand."""
    w = stored("bfloat16", 1024, 1024, False)
    weights, x = [coded(w)] * 6, jnp.ones((2, 1024), jnp.bfloat16)

    def layers(x, weights):
        for weight in weights:
            x = jnp.tanh(decode_matmul(x, weight))
        return x

    def loop(x, weights):
        return jax.lax.fori_loop(0, 9, lambda _, x: layers(x, weights), x)

    compiled = jax.jit(loop if in_a_loop else layers).lower(x, weights).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 3.5 * w.nbytes


def test_refusals():
    x, w = jnp.ones((2, 8), jnp.bfloat16), coded(np.ones((8, 4), dtype_from_name("bfloat16")))
    with pytest.raises(ArgumentError, match=r"CompressedTensor; got .*; compress it"):
        decode_matmul(x, jnp.ones((8, 4)))
    with pytest.raises(ArgumentError, match="must be a matrix"):
        decode_matmul(x, coded(np.ones((2, 8, 4), np.float32)))
    with pytest.raises(ArgumentError, match="of floats"):
        decode_matmul(x, encode(np.ones((8, 4), np.int32)))
    with pytest.raises(ArgumentError, match=r"K = 4 elements; got \(2, 8\)"):
        decode_matmul(x, w, transpose=True)
    with pytest.raises(ArgumentError, match="x must be one of bfloat16"):
        decode_matmul(x.astype(jnp.int32), w)
    with pytest.raises(ArgumentError, match=r"N = 4 floats; got int32\[4\]"):
        decode_matmul(x, w, bias=jnp.ones(4, jnp.int32))
    with pytest.raises(ArgumentError, match="activation must be one of None, 'relu'"):
        decode_matmul(x, w, activation="swish")
    with pytest.raises(ArgumentError, match="hold must be one of 'matrix', 'block'"):
        decode_matmul(x, w, hold="tile")
    with pytest.raises(ArgumentError, match="preferred_element_type must be a float"):
        decode_matmul(x, w, preferred_element_type=jnp.int32)
    with pytest.raises(ArgumentError, match="did you mean 'xla'"):
        decode_matmul(x, w, implementation="xl")
    foreign = jax.tree.unflatten(jax.tree.structure(w), jax.tree.leaves(w))
    object.__setattr__(foreign, "layout", "rows17")
    with pytest.raises(UnsupportedError, match=r"layouts rows16.*rows17"):
        decode_matmul(x, foreign, implementation="xla")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3, 16, 128])
@pytest.mark.parametrize("name", DTYPES)
def test_bits_of_larger_shapes(name, rows):
    """Where XLA's libraries on CPU split sums differently from shape to shape."""
    for depth, num_out in ((300, 1000), (2048, 4096), (1003, 997)):
        for transpose in (False, True):
            x, w = rows_of(name, (rows, depth)), stored(name, depth, num_out, transpose)
            check_error(check(x, w, transpose), x, w, transpose)
            if not transpose:  # where it is promised
                operands = (decode_matmul, coded(w), plain, jnp.asarray(w), jnp.asarray(x))
                assert_same_bits(*bit_equal_gradient(*operands))
