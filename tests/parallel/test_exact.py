"""Collectives return the bits of their twins, whatever the input, forward and backward."""

import jax
import jax.numpy as jnp
import pytest

import parallel
from pallas_kernels import ExponentConfig
from parallel import reference
from tests.parallel.calls import (
    CASES,
    everywhere,
    forward_and_backward,
    num_ranks,
    on_devices,
    result_shape,
    twins,
)
from tests.parallel.inputs import any_bits, assert_same_bits, worst_inputs

# Asks for compression however small the operand is.
ALWAYS = ExponentConfig.gaussian()

MESHES = {
    "2x4 fast": ({"slow": 2, "fast": 4}, "fast"),
    "2x4 slow": ({"slow": 2, "fast": 4}, "slow"),
    "2x4 both": ({"slow": 2, "fast": 4}, ("slow", "fast")),
    "8": ({"all": 8}, "all"),
    "4x2 slow": ({"slow": 4, "fast": 2}, "slow"),
    "4x2 fast": ({"slow": 4, "fast": 2}, "fast"),
}
# Every case on one mesh, every dtype that is compressed, every kind of mesh axis.
CODED = [
    *((case, "bfloat16", "2x4 fast") for case in CASES),
    ("psum", "bfloat16", "2x4 both"),
    ("all_to_all tiled", "float32", "8"),
    ("ppermute to some", "float16", "4x2 slow"),
]
# Every dtype on one mesh, one dtype on every mesh.
RAW = [
    *(("bfloat16", layout) for layout in MESHES),
    *((dtype, "4x2 slow") for dtype in ("float32", "float8_e4m3fn", "int16", "bool", "complex64")),
]


@pytest.mark.parametrize(("name", "dtype", "layout"), CODED)
def test_compressed_equals_twin_on_worst_inputs(name, dtype, layout):
    sizes, axis = MESHES[layout]
    mesh, case = parallel.make_mesh(sizes), CASES[name]
    options = case.options(num_ranks(mesh, axis))
    x_shape = (8, *case.shape(num_ranks(mesh, axis)))
    ct_shape = (8, *result_shape(mesh, axis, case, options, dtype))
    op = getattr(parallel, case.op)
    program = forward_and_backward(mesh, lambda x: op(x, axis, **options, codec=ALWAYS))
    want = twins(mesh, axis, case, options)

    xs, cts = worst_inputs(dtype, x_shape), worst_inputs(dtype, ct_shape, seed=1)
    with parallel.record_fallbacks() as fallbacks:
        program = program.trace(*map(jnp.asarray, (xs["gaussian"], cts["gaussian"])))
        report = parallel.wire_report(program)
        program = program.lower().compile()
    ours = [row for row in report.rows if row.site.op == case.op]
    assert sum(row.sent_nbytes for row in ours) < sum(row.raw_nbytes for row in ours)
    for kind, x in xs.items():
        y, gradient = program(jnp.asarray(x), jnp.asarray(cts[kind]))
        want_y, want_gradient = want(jnp.asarray(x), jnp.asarray(cts[kind]))
        assert_same_bits(y, want_y, f"{kind}, forward")
        assert_same_bits(gradient, want_gradient, f"{kind}, backward")
        if kind == "gaussian":
            assert not fallbacks.counts()
    assert fallbacks.counts(), "no input overflowed a payload, so the raw branch was not tried"


@pytest.mark.parametrize(("dtype", "layout"), RAW)
def test_raw_equals_twin(dtype, layout):
    """All cases in one program, with a codec that these dtypes or sizes do not take."""
    sizes, axis = MESHES[layout]
    mesh = parallel.make_mesh(sizes)
    cases = [
        case
        for case in CASES.values()
        if dtype != "bool" or case.op not in ("psum", "psum_scatter")
    ]

    def program(collectives, **codec):
        def body(*xs):
            options = (case.options(num_ranks(mesh, axis)) for case in cases)
            calls = zip(cases, xs, options, strict=True)
            results = (getattr(collectives, c.op)(x[0], axis, **o, **codec) for c, x, o in calls)
            return [everywhere(mesh, result)[None] for result in results]

        return on_devices(mesh, body, len(cases))

    shapes = [(8, *case.shape(num_ranks(mesh, axis))) for case in cases]
    xs = [jnp.asarray(any_bits(dtype, shape)) for shape in shapes]
    got = program(parallel, codec="exponent")(*xs)
    for case, y, want in zip(cases, got, program(reference)(*xs), strict=True):
        assert_same_bits(y, want, case.op)


@pytest.mark.parametrize("dtype", ["float8_e5m2"])
def test_raw_gradients_equal_twin(mesh, dtype):
    axis = "fast"
    for name, case in CASES.items():
        options = case.options(num_ranks(mesh, axis))
        op = getattr(parallel, case.op)
        x = any_bits(dtype, (8, *case.shape(num_ranks(mesh, axis))))
        ct = any_bits(dtype, (8, *result_shape(mesh, axis, case, options, dtype)), seed=1)
        got = forward_and_backward(mesh, lambda x, op=op, o=options: op(x, axis, **o))(x, ct)
        want = twins(mesh, axis, case, options)(x, ct)
        assert_same_bits(got[0], want[0], f"{name}, forward")
        assert_same_bits(got[1], want[1], f"{name}, backward")


AWKWARD = [(), (0,), (3, 0, 5), (1,), (129,), (7, 1, 11), (2, 3, 5, 7)]


@pytest.mark.parametrize("codec", [None, ALWAYS], ids=["raw", "always"])
def test_awkward_shapes(mesh, codec):
    """Scalars, nothing at all, odd counts: those that take any shape, and their gradients."""
    ring = [(rank, (rank + 1) % 4) for rank in range(4)]

    def body(*xs):
        results = []
        for x in xs:
            for call in (
                lambda x: parallel.psum(x, "fast", codec=codec),
                lambda x: parallel.all_gather(x, "fast", axis=-1, codec=codec),
                lambda x: parallel.ppermute(x, "fast", ring, codec=codec),
            ):
                y, pull = jax.vjp(call, x[0])
                results += [everywhere(mesh, y)[None], pull(y)[0][None]]
        return results

    def twin_body(*xs):
        results = []
        for x in xs:
            total = reference.psum(x[0], "fast")
            stacked = reference.all_gather(x[0], "fast", axis=-1)
            back = reference.psum_scatter(stacked, "fast", scatter_dimension=x.ndim - 1)
            moved = reference.ppermute(x[0], "fast", ring)
            returned = [everywhere(mesh, y) for y in (total, total, stacked, back, moved, x[0])]
            results += [y[None] for y in returned]
        return results

    xs = [jnp.asarray(any_bits("bfloat16", (8, *shape))) for shape in AWKWARD]
    got = on_devices(mesh, body, len(xs))(*xs)
    want = on_devices(mesh, twin_body, len(xs))(*xs)
    assert len(got) == 6 * len(AWKWARD)
    for idx, (y, want_y) in enumerate(zip(got, want, strict=True)):
        assert_same_bits(y, want_y, f"shape {AWKWARD[idx // 6]}, result {idx % 6}")
