"""Collectives under grad, vmap, scan, checkpoint and shard_map's types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import parallel
from pallas_kernels import ExponentConfig
from parallel import reference
from tests.parallel.calls import CASES, num_ranks, on_devices
from tests.parallel.inputs import any_bits, assert_same_bits

AXES = ("slow", "fast")
ALWAYS = ExponentConfig()


def shard_mapped(mesh, body, in_specs, out_specs, **options):
    return jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)
    )


@pytest.mark.parametrize(
    ("axes", "codec"), [(AXES, None), (("fast", "slow"), None), (AXES, ALWAYS)]
)
def test_psum_leaves_shard_map_as_equal_on_all_ranks(mesh, axes, codec):
    """And it is what NumPy adds up; ranks count in the order in which the axes are given."""
    x = any_bits("bfloat16", (8, 40, 301))
    total = shard_mapped(mesh, lambda x: parallel.psum(x[0], axes, codec=codec), P(AXES), P())(x)
    ranks = x if axes == AXES else x.reshape(2, 4, 40, 301).swapaxes(0, 1).reshape(x.shape)
    want = ranks[0].astype(np.float32)
    for part in ranks[1:]:
        want = want + part.astype(np.float32)
    assert_same_bits(total, want.astype(x.dtype))


def test_second_derivatives(mesh):
    """Gradients of gradients stay inside our collectives and agree with JAX's own."""
    w = np.random.default_rng(0).standard_normal((8, 8, 4)).astype(np.float32)
    pairs = [
        (lambda x: parallel.psum(x, AXES), lambda x: lax.psum(x, AXES)),
        (lambda x: parallel.all_gather(x, "fast"), lambda x: lax.all_gather(x, "fast")),
        (
            lambda x: parallel.psum_scatter(x, "fast", scatter_dimension=1, tiled=True),
            lambda x: lax.psum_scatter(x, "fast", scatter_dimension=1, tiled=True),
        ),
        (
            lambda x: parallel.all_to_all(x, "fast", 1, 0, tiled=True),
            lambda x: lax.all_to_all(x, "fast", 1, 0, tiled=True),
        ),
        (
            lambda x: parallel.ppermute(x, "fast", [(0, 1), (1, 3)]),
            lambda x: lax.ppermute(x, "fast", [(0, 1), (1, 3)]),
        ),
    ]

    def hessian_product(collective):
        def loss(w):
            body = lambda w: lax.psum(
                jnp.sum(jnp.sin(everywhere_varying(collective(w[0] * w[0])))), AXES
            )
            return jax.shard_map(body, mesh=mesh, in_specs=P(AXES), out_specs=P())(w)

        return jax.jit(jax.grad(lambda w: jnp.vdot(jax.grad(loss)(w), jnp.cos(w))))

    for ours, theirs in pairs:
        program = hessian_product(ours)
        got, want = program(w), hessian_product(theirs)(w)
        assert np.abs(got).max() > 0.1
        # Sums of the two are added in another order, so equality is up to rounding.
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
        assert "reduce_scatter" not in program.lower(w).as_text()


def everywhere_varying(x):
    missing = tuple(n for n in AXES if n not in jax.typeof(x).manual_axis_type.varying)
    return lax.pcast(x, missing, to="varying") if missing else x


@pytest.mark.parametrize("name", ["all_gather", "psum", "all_to_all tiled", "ppermute"])
def test_inside_scan_and_checkpoint(mesh, name):
    """A scan of checkpointed steps and the same steps written out agree on bits."""
    case = CASES[name]
    options = case.options(num_ranks(mesh, "fast"))
    op = getattr(parallel, case.op)

    def step(carry, scale):
        y = op(carry * scale, "fast", **options, codec="exponent")
        return carry * scale, jnp.sum(y * y)

    def gradient(run):
        def body(x):
            loss = lambda x: jnp.sum(everywhere_varying(run(x)))
            return jax.grad(loss)(x[0])[None]

        return on_devices(mesh, body, 1)(jnp.asarray(any_bits("float32", (8, *case.shape(4)))))

    scales = jnp.asarray([0.5, 1.0, 2.0])
    rolled = lambda x: lax.scan(jax.checkpoint(step), x, scales)[1]

    def written_out(x):
        losses = []
        for scale in scales:
            x, loss = step(x, scale)
            losses.append(loss)
        return jnp.stack(losses)

    assert_same_bits(gradient(rolled), gradient(written_out))


def test_vmap_runs_one_branch_for_the_whole_batch(mesh):
    """Under vmap the flag of a batch is one flag, so one bad element sends the batch raw."""
    x = any_bits("bfloat16", (8, 3, 9001))
    bad = x.copy()
    bad[5, 1] = any_bits("uint16", (9001,)).view(x.dtype)
    gather = lambda x: parallel.all_gather(x, "fast", codec=ALWAYS)

    with parallel.record_fallbacks() as fallbacks:
        program = on_devices(mesh, lambda x: jax.vmap(gather)(x[0])[None], 1)
        program = program.lower(x).compile()
    twin = on_devices(
        mesh, lambda x: jax.vmap(lambda x: reference.all_gather(x, "fast"))(x[0])[None], 1
    )
    assert_same_bits(program(x), twin(x))
    assert not fallbacks.counts()
    assert_same_bits(program(bad), twin(bad))
    # Device 5 is in the second slow group: its four devices go raw, the others do not.
    assert list(fallbacks.counts().values()) == [4]


def test_parameters_get_their_gradient_by_our_psum(mesh):
    """pbroadcast moves nothing forward; its gradient is the sum in rank order."""
    w = any_bits("bfloat16", (50, 301))
    x = any_bits("bfloat16", (8, 50, 301))

    def body(w, x):
        w = parallel.pbroadcast(w, AXES, codec=ALWAYS)
        return jax.grad(lambda w: jnp.sum((w * x[0]).astype(jnp.float32)))(w)[None]

    def loss(w, x):
        def body(w, x):
            w = parallel.pbroadcast(w, AXES, codec=ALWAYS)
            return lax.psum(jnp.sum((w * x[0]).astype(jnp.float32)), AXES)

        return jax.shard_map(body, mesh=mesh, in_specs=(P(), P(AXES)), out_specs=P())(w, x)

    local = shard_mapped(mesh, body, (P(), P(AXES)), P(AXES))(w, x)
    summed = shard_mapped(mesh, lambda g: reference.psum(g[0], AXES), P(AXES), P())(local)
    gradient = jax.jit(jax.grad(loss)).trace(w, x)
    assert_same_bits(gradient.lower().compile()(w, x), summed)
    rows = parallel.wire_report(gradient).rows
    assert any(r.site.op == "pbroadcast" and r.sent_nbytes < r.raw_nbytes for r in rows)
    # What is left to lax.psum is the loss.
    assert all(r.raw_nbytes < 10 for r in rows if r.site.op.startswith("lax."))


def test_operand_equal_on_all_ranks_counts_once_per_rank(mesh):
    w = any_bits("float32", (5, 7))
    body = lambda w: parallel.psum(w, "fast")
    total = shard_mapped(mesh, body, P(), P())(w)
    assert_same_bits(total, w + w + w + w)
    gradient = jax.grad(lambda w: shard_mapped(mesh, body, P(), P())(w).sum())(w)
    assert_same_bits(gradient, np.full((5, 7), 4, np.float32))


@pytest.mark.parametrize("check_vma", [True, False])
def test_gradients_with_and_without_types(mesh, check_vma):
    """check_vma=False gives other types, not another gradient."""
    w = any_bits("float32", (8, 4, 6))

    def loss(collectives, w):
        def body(w):
            y = collectives.all_gather(w[0] ** 2, "fast", tiled=True)
            return collectives.psum(jnp.sum(jnp.sin(y)), AXES)

        return jax.shard_map(body, mesh=mesh, in_specs=P(AXES), out_specs=P(), check_vma=check_vma)(
            w
        )

    got = jax.jit(jax.grad(lambda w: loss(parallel, w)))(w)
    want = jax.jit(jax.grad(lambda w: loss(lax, w)))(w)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_pytrees(mesh):
    tree = {"a": any_bits("float32", (8, 3)), "b": (any_bits("int32", (8, 2, 2)), None)}
    body = lambda t: parallel.psum(jax.tree.map(lambda x: x[0], t), AXES)
    total = shard_mapped(mesh, body, P(AXES), P())(tree)
    assert_same_bits(total["b"][0], tree["b"][0].sum(0, dtype=np.int32))
    assert total["b"][1] is None


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_wide_dtypes(mesh, dtype):
    with jax.enable_x64(True):
        x = any_bits(dtype, (8, 6, 5))
        body = lambda x: parallel.psum(x[0], "slow", codec="exponent")[None]
        total = shard_mapped(mesh, body, P(AXES), P("fast"))(x)
        assert_same_bits(total, x[:4] + x[4:])
