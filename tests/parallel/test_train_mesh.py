"""Model and training step over eight devices: where parts lie changes nothing."""

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import PartitionSpec as P

from pallas_kernels import ArgumentError
from parallel import make_mesh, wire_report
from tests.support.equal import assert_same_bits
from tests.zipjax.train_cases import TINY, quietly, tiny_config, tiny_text
from zipjax.models import MoEDecoder
from zipjax.nn import ExpertParallel
from zipjax.train import compare_states, digest_state, make_train_mesh, train
from zipjax.train.batches import Batches, place_batch
from zipjax.train.layout import BATCH_AXES, BATCH_SPEC, check_layout, param_specs
from zipjax.train.state import init_state
from zipjax.train.step import make_train_step


@pytest.fixture(scope="module")
def train_mesh():
    return make_train_mesh(TINY.num_experts)


def test_the_mesh_is_two_copies_of_four_parts(train_mesh):
    assert dict(train_mesh.shape) == {"data": 2, "expert": 4}
    assert dict(make_train_mesh(2).shape) == {"data": 4, "expert": 2}
    assert dict(make_train_mesh(3).shape) == {"data": 8, "expert": 1}


def test_the_decoder_over_the_mesh_is_the_decoder_on_one_device(train_mesh):
    model = MoEDecoder(TINY, rngs=nnx.Rngs(0))
    graphdef, params = nnx.split(model)
    tokens = np.random.default_rng(0).integers(0, 256, (8, 16)).astype(np.int32)
    alone, _ = jax.jit(lambda params, tokens: nnx.merge(graphdef, params)(tokens))(params, tokens)

    def local(params, tokens):
        where = ExpertParallel(expert_axis="expert", batch_axes=BATCH_AXES)
        return nnx.merge(graphdef, params)(tokens, where)[0]

    specs = (param_specs(params), BATCH_SPEC)
    spread = jax.shard_map(local, mesh=train_mesh, in_specs=specs, out_specs=BATCH_SPEC)
    # Matrix products of other shapes may add in another order, in float32; and what travels is
    # rounded to bfloat16, where a value at a rounding edge falls to either side.
    off = np.abs(np.asarray(jax.jit(spread)(params, tokens)) - np.asarray(alone))
    assert off.max() < 2**-6
    assert np.mean(off < 2**-18) > 0.5


@pytest.mark.parametrize("batch", [4, 9])
def test_the_batch_must_divide_over_the_devices(train_mesh, batch):
    with pytest.raises(ArgumentError, match=f"by the 8 devices; got {batch}; for example --batch"):
        check_layout(train_mesh, batch=batch, num_experts=4)
    with pytest.raises(ArgumentError, match="by the 4 devices of the expert axis; got 6"):
        check_layout(train_mesh, batch=8, num_experts=6)


def test_a_step_sends_nothing_but_what_we_know_of(train_mesh):
    """No collective of JAX's own choosing, save for counts and flags (4 bytes an expert)."""
    config = tiny_config(batch=8)
    tokens = place_batch(Batches(tiny_text(), config).train(0), train_mesh)
    traced = make_train_step(config, train_mesh).trace(init_state(config, train_mesh), tokens)
    rows = wire_report(traced).rows
    for row in rows:
        if row.site.op.startswith("lax."):
            assert row.raw_nbytes < 200, str(row.site)
    assert {"all_to_all", "psum"} <= {row.site.op for row in rows}


@pytest.mark.slow
def test_compressed_and_raw_steps_are_bit_identical(train_mesh):
    """The codes of a run code messages of any size, and tiny ones overflow now and then."""
    outcomes = [
        train(tiny_config(batch=8, codec=codec), tiny_text(), train_mesh, quietly(None))
        for codec in ("exponent", None)
    ]
    assert compare_states(*(outcome.state for outcome in outcomes)).identical
    assert outcomes[0].digest == outcomes[1].digest


def test_a_digest_does_not_depend_on_the_mesh(train_mesh):
    config = tiny_config(batch=8)
    spread = init_state(config, train_mesh)
    alone = init_state(config, make_mesh({"data": 1, "expert": 1}, devices=jax.devices()[:1]))
    assert_same_bits(jax.device_get(spread), jax.device_get(alone))
    assert digest_state(spread) == digest_state(alone)


def test_a_digest_sees_every_single_bit_and_every_swap():
    x = np.arange(40, dtype=np.uint32)
    flips = [
        np.where(np.arange(40) == i, x ^ np.uint32(1 << b), x) for i in range(40) for b in (0, 31)
    ]
    swaps = [x[np.roll(np.arange(40), shift)] for shift in range(40)]
    digests = [digest_state(y.view(np.float32)) for y in [*flips, *swaps]]
    assert len(set(digests)) == len(digests)
    assert digest_state({"a": x, "b": x}) != digest_state({"a": x})


def test_specs_spread_the_experts_alone():
    model = nnx.eval_shape(lambda: MoEDecoder(TINY, rngs=nnx.Rngs(0)))
    specs = param_specs(nnx.state(model))
    assert specs["blocks"]["moe"]["experts"]["gate"].get_value() == P(None, "expert")
    assert specs["blocks"]["moe"]["router"]["kernel"].get_value() == P()
    assert specs["embed"]["embedding"].get_value() == P()
