"""Every twin against its plain layer: results and gradients are the same bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zipjax
from tests.support.equal import assert_same_bits
from zipjax.nn import TWINS, CompressedParam, SwigluExperts

BF16 = {"param_dtype": jnp.bfloat16}
DTYPES = ("float32", "bfloat16", "float16")


def draw(*shape, dtype=np.float32):
    return jnp.asarray(np.random.default_rng(0).standard_normal(shape), dtype)


LAYERS = {
    "Linear": (lambda **k: nnx.Linear(96, 160, **k), draw(3, 5, 96)),
    "Linear without bias": (lambda **k: nnx.Linear(96, 160, use_bias=False, **k), draw(1, 96)),
    "LoRALinear": (lambda **k: nnx.LoRALinear(96, 160, lora_rank=4, **k), draw(5, 96)),
    "LinearGeneral": (
        lambda **k: nnx.LinearGeneral((8, 16), (4, 32), axis=(1, 2), **k),
        draw(3, 8, 16),
    ),
    "Einsum": (lambda **k: nnx.Einsum("nta,hab->nthb", (8, 64, 32), (8, 32), **k), draw(2, 3, 64)),
    "Conv": (lambda **k: nnx.Conv(32, 64, (3, 3), **k), draw(1, 6, 6, 32)),
}


def twin_of(plain, **rules):
    """A plain layer and its twin."""
    twin = nnx.clone(plain)
    report = zipjax.compress_model(twin, **rules)
    assert any(row.compressed for row in report.rows)
    assert type(twin) is TWINS[type(plain)].cls
    return twin


@nnx.jit
def forward(layer, x):
    return layer(x)


@nnx.jit
def gradients(layer, x):
    """With respect to the inputs and to what is still a parameter."""

    graphdef, others, kernel = nnx.split(layer, nnx.Not(nnx.PathContains("kernel")), ...)

    def loss(others, x):
        return (nnx.merge(graphdef, others, kernel)(x).astype(jnp.float32) ** 2).sum()

    return jax.grad(loss, argnums=(0, 1))(others, x)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "param_dtype", [pytest.param("float32", marks=pytest.mark.slow), "bfloat16"]
)
def test_results_and_gradients(name, param_dtype):
    make, x = LAYERS[name]
    plain = make(param_dtype=jnp.dtype(param_dtype), rngs=nnx.Rngs(0))
    twin = twin_of(plain)
    assert_same_bits(forward(twin, x), forward(plain, x))
    assert_same_bits(gradients(twin, x), gradients(plain, x))


@pytest.mark.slow  # a program for each
@pytest.mark.parametrize("param_dtype", DTYPES)
@pytest.mark.parametrize("x_dtype", DTYPES)
@pytest.mark.parametrize("dtype", [None, "bfloat16", "float32"])
def test_promotion_is_that_of_the_plain_layer(param_dtype, x_dtype, dtype):
    plain = nnx.Linear(
        64,
        128,
        param_dtype=jnp.dtype(param_dtype),
        dtype=dtype and jnp.dtype(dtype),
        rngs=nnx.Rngs(0),
    )
    x = draw(3, 64, dtype=x_dtype)
    assert_same_bits(forward(twin_of(plain), x), forward(plain, x))


def test_options_of_the_product_are_kept():
    plain = nnx.Linear(
        64,
        96,
        param_dtype=jnp.bfloat16,
        precision="highest",
        preferred_element_type=jnp.float32,
        rngs=nnx.Rngs(0),
    )
    x = draw(3, 64, dtype=jnp.bfloat16)
    got = forward(twin_of(plain), x)
    assert got.dtype == jnp.float32
    assert_same_bits(got, forward(plain, x))


@pytest.mark.parametrize("num_embeddings", [1, 300])
@pytest.mark.parametrize(("param_dtype", "dtype"), [("bfloat16", None), ("float32", "float16")])
def test_embeddings(num_embeddings, param_dtype, dtype):
    """Rows out of range are NaN and negative ones count from the end, as in the plain layer."""
    features = 5000 if num_embeddings == 1 else 96
    plain = nnx.Embed(
        num_embeddings,
        features,
        param_dtype=jnp.dtype(param_dtype),
        dtype=dtype and jnp.dtype(dtype),
        rngs=nnx.Rngs(0),
    )
    twin = twin_of(plain)
    rows = jnp.array([[0, num_embeddings - 1, -1], [-num_embeddings, num_embeddings, -999]])
    assert_same_bits(forward(twin, rows), forward(plain, rows))
    many = jnp.arange(2 * num_embeddings + 7)
    assert_same_bits(forward(twin, many), forward(plain, many))
    query = draw(2, features)
    assert_same_bits(attend(twin, query), attend(plain, query))
    with pytest.raises(ValueError, match="must be an integer"):
        twin(query)


@nnx.jit
def attend(layer, query):
    return layer.attend(query)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
def test_embeddings_take_every_integer(dtype):
    plain = nnx.Embed(300, 96, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    ends = np.iinfo(dtype)
    rows = jnp.array([0, 1, 100, ends.min, ends.max], dtype)
    assert_same_bits(forward(twin_of(plain), rows), forward(plain, rows))


def test_embeddings_decode_the_rows_that_are_asked_for():
    twin = twin_of(nnx.Embed(5000, 96, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0)))
    graphdef, state = nnx.split(twin)
    rows = jnp.array([1, 4999])
    program = jax.jit(lambda state, rows: nnx.merge(graphdef, state)(rows))
    temporary_nbytes = program.lower(state, rows).compile().memory_analysis().temp_size_in_bytes
    assert temporary_nbytes < 5000 * 96 * 2 / 10


def test_experts():
    plain = SwigluExperts(3, 64, 96, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    twin, rows = twin_of(plain), draw(3, 5, 64)
    assert_same_bits(forward(twin, rows), forward(plain, rows))
    assert twin.gate.get_value().streams["codes"].shape[0] == 3


def test_one_matrix_of_a_layer_can_stay_plain():
    plain = SwigluExperts(3, 64, 96, param_dtype=jnp.bfloat16, rngs=nnx.Rngs(0))
    twin, rows = twin_of(plain, rules={"up": "leave"}), draw(3, 5, 64)
    assert isinstance(twin.gate, CompressedParam)
    assert not isinstance(twin.up, CompressedParam)
    assert_same_bits(forward(twin, rows), forward(plain, rows))


def test_the_backward_pass_decodes_again():
    """No decoded matrix lives from the forward pass to the backward pass."""
    model = nnx.Sequential(*(nnx.Linear(64, 64, rngs=nnx.Rngs(i)) for i in range(3)))
    zipjax.compress_model(model)
    graphdef, state = nnx.split(model)
    x = draw(2, 64)
    _, vjp = jax.vjp(lambda x: nnx.merge(graphdef, state)(x), x)
    kept = [leaf for leaf in jax.tree.leaves(vjp) if leaf.dtype == jnp.float32]
    assert all(leaf.size < 64 * 64 for leaf in kept)


def test_matrices_are_decoded_one_at_a_time():
    """Neither all at the start, nor once for all steps of a loop."""
    layers = [nnx.Linear(512, 512, **BF16, rngs=nnx.Rngs(i)) for i in range(8)]
    model, x = nnx.Sequential(*layers), draw(4, 512, dtype=jnp.bfloat16)

    def temporary_nbytes():
        graphdef, state = nnx.split(model)

        @jax.jit
        def five_times(state, x):
            def step(x, _):
                return nnx.merge(graphdef, state)(x), None

            return jax.lax.scan(step, x, None, length=5)[0]

        return five_times.lower(state, x).compile().memory_analysis().temp_size_in_bytes

    # On CPU the plain program of jax 0.10 converts all its matrices to float32 beforehand.
    plain_nbytes = temporary_nbytes()
    zipjax.compress_model(model)
    assert temporary_nbytes() - plain_nbytes < 3 * 2 * 512 * 512
