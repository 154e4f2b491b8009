"""Adapters on a compressed base: the losses of the plain base, and runs that resume."""

import json

import jax
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import SingleDeviceSharding
from orbax.checkpoint import v1 as ocp

import zipjax
from tests.support.equal import assert_same_bits
from tests.zipjax.compression_cases import BF16, run_stack, stacked_blocks
from zipjax import ArgumentError, FormatError
from zipjax.nn import CompressedParam

X = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)


class Adapted(nnx.Module):
    """Both ways to put an adapter on a layer, above stacked layers without one."""

    def __init__(self, rngs):
        self.stack = stacked_blocks(2, 128, rngs)
        self.inside = nnx.LoRALinear(128, 256, lora_rank=4, **BF16, rngs=rngs)
        base = nnx.Linear(256, 128, **BF16, rngs=rngs)
        self.around = nnx.LoRA(256, 4, 128, base_module=base, rngs=rngs)

    def __call__(self, x):
        return self.around(jax.nn.silu(self.inside(run_stack(self.stack, x))))


def make_optimizer(model):
    return nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.LoRAParam)


@nnx.jit
def train_step(model, optimizer):
    def loss(model):
        return ((model(X) - X) ** 2).mean()

    adapters = nnx.DiffState(0, nnx.LoRAParam)
    value, grads = nnx.value_and_grad(loss, argnums=adapters)(model)
    optimizer.update(model, grads)
    return value


def train(model, optimizer, num_steps):
    return [np.asarray(train_step(model, optimizer)) for _ in range(num_steps)]


@pytest.fixture(scope="module")
def plain_run():
    """Losses of six steps on the plain base, and the model after them."""
    model = Adapted(nnx.Rngs(0))
    return train(model, make_optimizer(model), 6), model


def test_adapters_learn_on_a_compressed_base(plain_run):
    plain_losses, plain_model = plain_run
    model = Adapted(nnx.Rngs(0))
    report = zipjax.compress_model(model)
    assert sum(row.compressed for row in report.rows) == 4
    base = jax.tree.map(np.asarray, nnx.state(model, CompressedParam))

    losses = train(model, make_optimizer(model), 6)

    assert_same_bits(losses, plain_losses)
    assert losses[-1] < losses[0]
    assert_same_bits(nnx.state(model, nnx.LoRAParam), nnx.state(plain_model, nnx.LoRAParam))
    assert_same_bits(jax.tree.map(np.asarray, nnx.state(model, CompressedParam)), base)
    zipjax.decompress_model(model)
    assert_same_bits(nnx.state(model), nnx.state(plain_model))


def save(folder, model, optimizer):
    """A checkpoint, and what no library stores: the structure of the compressed matrices."""
    ocp.save(
        folder,
        {"model": nnx.state(model), "optimizer": nnx.state(optimizer)},
        custom_metadata={"structure": zipjax.structure_of(model)},
    )


def restore(folder):
    """What another process does: nothing but the code and the folder is known."""
    structure = ocp.metadata(folder).custom_metadata["structure"]
    model = nnx.eval_shape(lambda: Adapted(nnx.Rngs(0)))
    zipjax.set_structure(model, structure)
    optimizer = nnx.eval_shape(lambda: make_optimizer(model))
    device = SingleDeviceSharding(jax.devices()[0])
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device),
        {"model": nnx.state(model), "optimizer": nnx.state(optimizer)},
    )
    state = ocp.load(folder, abstract)
    nnx.update(model, state["model"])
    nnx.update(optimizer, state["optimizer"])
    return model, optimizer


def test_a_run_resumes_from_a_checkpoint(tmp_path, plain_run):
    """Types and static fields survive, and nothing turns to zeros: losses go on as they were."""
    model = Adapted(nnx.Rngs(0))
    zipjax.compress_model(model)
    optimizer = make_optimizer(model)
    losses = train(model, optimizer, 3)
    save(tmp_path / "run", model, optimizer)

    restored, restored_optimizer = restore(tmp_path / "run")

    graphdef, state = nnx.split(restored)
    assert nnx.split(model)[0] == graphdef
    assert_same_bits(state, nnx.state(model))
    assert all(np.asarray(leaf).any() for leaf in jax.tree.leaves(nnx.state(model, nnx.LoRAParam)))
    assert_same_bits(losses + train(restored, restored_optimizer, 3), plain_run[0])


def test_a_structure_is_json_and_is_checked():
    model = Adapted(nnx.Rngs(0))
    zipjax.compress_model(model)
    structure = json.loads(json.dumps(zipjax.structure_of(model)))

    def abstract():
        return nnx.eval_shape(lambda: Adapted(nnx.Rngs(0)))

    target = abstract()
    zipjax.set_structure(target, structure)
    assert jax.tree.structure(nnx.state(target)) == jax.tree.structure(nnx.state(model))
    assert zipjax.structure_of(target) == structure

    path = "inside.kernel"
    with pytest.raises(FormatError, match="must be of version 1; got 2"):
        zipjax.set_structure(abstract(), structure | {"version": 2})
    other = {"version": 1, "matrices": {"outside.kernel": structure["matrices"][path]}}
    with pytest.raises(FormatError, match=r"must be of this model; got no outside\.kernel"):
        zipjax.set_structure(abstract(), other)
    other = {"version": 1, "matrices": {path: structure["matrices"][path] | {"shape": [3, 3]}}}
    with pytest.raises(ArgumentError, match=r"must be bfloat16\[128, 256\]; got bfloat16\[3, 3\]"):
        zipjax.set_structure(abstract(), other)
    broken = {"codec": "triple_bitmap"}
    with pytest.raises(FormatError, match=r"inside\.kernel must be described whole"):
        zipjax.set_structure(abstract(), {"version": 1, "matrices": {path: broken}})
