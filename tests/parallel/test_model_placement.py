"""Models loaded onto a mesh: what lies where, and that it computes the same."""

import dataclasses

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from pallas_kernels import ArgumentError
from parallel import make_mesh
from tests.support.equal import assert_same_bits
from tests.zipjax.model_cases import CASES, draw_model
from zipjax.models import estimate_model, load_model, save_model

SIZES = {"width": 64, "vocab_size": 128}


def draw_folder(name, path):
    save_model(path, draw_model(dataclasses.replace(CASES[name], **SIZES)))


def specs_of(model) -> dict[str, P]:
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {".".join(map(str, path)): param.sharding.spec for path, param in flat}


@pytest.fixture(scope="module")
def mesh():
    return make_mesh({"expert": 2, "tensor": 4})


@pytest.mark.parametrize("name", ["llama", "mixtral", "deepseek_v3"])
def test_a_model_on_a_mesh_has_its_bits_and_its_parts(name, mesh, tmp_path):
    draw_folder(name, tmp_path)
    plain, spread = load_model(tmp_path), load_model(tmp_path, mesh=mesh)
    assert_same_bits(nnx.state(spread), nnx.state(plain))
    on_each = {device: 0 for device in mesh.devices.flat}
    for array in jax.tree.leaves(nnx.state(spread)):
        for shard in array.addressable_shards:
            on_each[shard.device] += shard.data.nbytes
    estimate = estimate_model(tmp_path, num_tensor=4, num_expert=2)
    assert set(on_each.values()) == {estimate.plain.device_nbytes}


def test_every_kind_has_its_rule(mesh, tmp_path):
    draw_folder("mixtral", tmp_path)
    specs = specs_of(load_model(tmp_path, mesh=mesh))
    assert specs["embed_tokens.embedding"] == P("tensor", None)
    assert specs["layers.0.self_attn.q_proj.kernel"] == P(None, "tensor")
    assert specs["layers.0.self_attn.o_proj.kernel"] == P("tensor", None)
    assert specs["layers.0.mlp.gate.kernel"] == P(None, None)
    assert specs["layers.0.mlp.experts.gate"] == P("expert", None, "tensor")
    assert specs["layers.0.mlp.experts.down"] == P("expert", "tensor", None)
    assert specs["layers.0.input_layernorm.scale"] == P(None)
    assert specs["lm_head.kernel"] == P(None, "tensor")


def test_an_axis_that_does_not_divide_is_not_used(tmp_path):
    """Six experts on four devices: each has them all."""
    draw_folder("qwen3_moe", tmp_path)
    specs = specs_of(load_model(tmp_path, mesh=make_mesh({"expert": 4, "other": 2})))
    assert specs["layers.1.mlp.experts.gate"] == P(None, None, None)
    assert specs["layers.1.self_attn.q_proj.kernel"] == P(None, None)


def test_a_mesh_without_a_known_axis_is_refused(tmp_path):
    draw_folder("llama", tmp_path)
    mesh = make_mesh({"data": 8})
    with pytest.raises(ArgumentError, match="must have an axis 'tensor' or 'expert'"):
        load_model(tmp_path, mesh=mesh)
    specs = specs_of(load_model(tmp_path, mesh=mesh, tensor_axis="data"))
    assert specs["lm_head.kernel"] == P(None, "data")


@pytest.mark.parametrize("compressed", [False, True])
def test_it_computes_the_same_on_a_mesh(compressed, mesh, tmp_path):
    """Products are added in other orders there, so not on bits."""
    config = dataclasses.replace(CASES["mixtral"], width=128, vocab_size=256)
    save_model(tmp_path, draw_model(config))
    tokens = np.random.default_rng(0).integers(0, 256, (2, 8)).astype(np.int32)
    call = nnx.jit(lambda model, tokens: model(tokens)[0])
    want = call(load_model(tmp_path), tokens)
    got = call(load_model(tmp_path, mesh=mesh, compressed=compressed), tokens)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
