"""Compressed models on a mesh: each device holds the streams of its own part of every matrix."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from orbax.checkpoint import v1 as ocp

import zipjax
from tests.support.equal import assert_same_bits
from zipjax.nn import SwigluExperts, decode_param

X = np.random.default_rng(0).standard_normal((16, 128)).astype(np.float32)
BF16 = {"param_dtype": jnp.bfloat16}


def tensor_mesh(axis_type=AxisType.Auto):
    return jax.make_mesh((2, 4), ("data", "tensor"), axis_types=(axis_type,) * 2)


class Sharded(nnx.Module):
    """Columns cut, rows cut, both cut, and whole."""

    def __init__(self, rngs):
        def linear(rows, columns, *axes):
            cut = {"kernel_metadata": {"out_sharding": axes}}
            return nnx.Linear(rows, columns, use_bias=False, **BF16, **cut, rngs=rngs)

        self.columns = linear(128, 512, None, "tensor")
        self.rows = linear(512, 128, "tensor", None)
        self.both = linear(128, 256, "data", "tensor")
        self.whole = linear(256, 64, None, None)

    def __call__(self, x):
        def place(*axes):
            mesh = jax.sharding.get_abstract_mesh()
            is_explicit = AxisType.Explicit in mesh.axis_types
            return {"out_sharding": P(*axes)} if is_explicit else {}

        x = jax.nn.silu(self.columns(x, **place("data", "tensor")))
        x = self.both(self.rows(x, **place("data", None)), **place("data", "tensor"))
        return self.whole(x, **place("data", None))


@nnx.jit
def apply(model, x):
    return model(x)


def gathers(model, x):
    """The all-gathers of a compiled program, by the shape of what they give."""
    graphdef, state = nnx.split(model)
    program = jax.jit(lambda state, x: nnx.merge(graphdef, state)(x))
    text = program.lower(state, x).compile().as_text()
    return sorted(re.findall(r"= (\w+\[[\d,]*\])\S* all-gather\(", text))


@pytest.mark.parametrize(
    "axis_type", [AxisType.Auto, pytest.param(AxisType.Explicit, marks=pytest.mark.slow)], ids=str
)
def test_results_are_the_same_bits_and_no_weight_travels(axis_type):
    mesh = tensor_mesh(axis_type)
    with jax.set_mesh(mesh):
        model = Sharded(nnx.Rngs(0))
        x = jax.device_put(X, NamedSharding(mesh, P("data")))
        want, want_gathers = apply(model, x), gathers(model, x)
        plain = jax.tree.map(lambda leaf: leaf.copy(), nnx.state(model))

        report = zipjax.compress_model(model)

        assert all(row.compressed for row in report.rows)
        assert_same_bits(apply(model, x), want)
        # What the plain program gathers, the compressed one may gather; matrices are no more.
        assert gathers(model, x) == want_gathers
        assert_same_bits(decode_param(model.both.kernel), plain["both"]["kernel"][...])

        zipjax.decompress_model(model)
        assert_same_bits(nnx.state(model), plain)
        for name in ("columns", "rows", "both", "whole"):
            kernel, before = getattr(model, name).kernel, plain[name]["kernel"]
            assert kernel[...].sharding.is_equivalent_to(before[...].sharding, 2)
            assert kernel.get_metadata("out_sharding") == before.get_metadata("out_sharding")


def test_each_device_holds_the_streams_of_its_part():
    with jax.set_mesh(tensor_mesh()):
        model = Sharded(nnx.Rngs(0))
        kernel = np.asarray(model.both.kernel[...])
        report = zipjax.compress_model(model)
    param = model.both.kernel
    assert param.get_metadata("cut_dims") == (0, 1)
    assert param.get_value().shape == (64, 64)
    for shard in param.get_value().streams["codes"].addressable_shards:
        row, column = (int(part.start or 0) for part in shard.index[:2])
        piece = jax.tree.map(lambda s, at=(row, column): s[at], jax.device_get(param.get_value()))
        part = kernel[64 * row : 64 * row + 64, 64 * column : 64 * column + 64]
        assert_same_bits(zipjax.decompress(jax.tree.map(jnp.asarray, piece)), jnp.asarray(part))
    for name in ("columns", "rows", "both"):
        streams = getattr(model, name).kernel.get_value().streams
        held = sum(stream.addressable_shards[0].data.nbytes for stream in streams.values())
        parts = 8 if name == "both" else 4
        row = next(row for row in report.rows if row.path == f"{name}.kernel")
        assert held == row.nbytes / parts
        assert held < 0.72 * row.raw_nbytes / parts


def test_experts_are_spread_over_the_mesh():
    mesh = jax.make_mesh((8,), ("expert",), axis_types=(AxisType.Auto,))
    model = SwigluExperts(8, 64, 128, **BF16, rngs=nnx.Rngs(0))
    rows = np.random.default_rng(0).standard_normal((8, 5, 64)).astype(np.float32)
    place = NamedSharding(mesh, P("expert"))
    nnx.update(model, jax.device_put(nnx.state(model), place))
    rows = jax.device_put(rows, place)
    want = apply(model, rows)
    zipjax.compress_model(model)
    streams = model.gate.get_value().streams
    assert {stream.addressable_shards[0].data.shape[0] for stream in streams.values()} == {1}
    assert_same_bits(apply(model, rows), want)
    assert gathers(model, rows) == []


def test_shard_map_sees_the_local_part():
    """Inside, the layer is that of the local matrix: the streams are cut as the matrix is."""
    mesh = tensor_mesh()
    with jax.set_mesh(mesh):
        model = Sharded(nnx.Rngs(0))
        kernel = np.asarray(model.columns.kernel[...])
        zipjax.compress_model(model)
        graphdef, state = nnx.split(model.columns)
        specs = jax.tree.map(lambda leaf: leaf.sharding.spec, state)

        @jax.jit
        @jax.shard_map(in_specs=(specs, P()), out_specs=P(None, "tensor"))
        def local(state, x):
            return nnx.merge(graphdef, state)(x)

        got = local(state, X)
    parts = [X @ kernel[:, i : i + 128].astype(np.float32) for i in range(0, 512, 128)]
    np.testing.assert_allclose(got, np.concatenate(parts, axis=1), rtol=1e-5, atol=1e-5)


def test_a_checkpoint_comes_back_on_the_mesh(tmp_path):
    with jax.set_mesh(tensor_mesh()):
        model = Sharded(nnx.Rngs(0))
        want = apply(model, X)
        zipjax.compress_model(model)
        ocp.save(tmp_path / "model", nnx.state(model))

        target = nnx.eval_shape(lambda: Sharded(nnx.Rngs(0)))
        zipjax.set_structure(target, zipjax.structure_of(model))
        nnx.update(target, ocp.load(tmp_path / "model", nnx.state(target)))

        assert_same_bits(nnx.state(target), nnx.state(model))
        for got, saved in zip(*map(jax.tree.leaves, map(nnx.state, (target, model))), strict=True):
            assert got.sharding.is_equivalent_to(saved.sharding, got.ndim)
        assert_same_bits(apply(target, X), want)
