"""Bytes by call site and axis: formulas, repetition, branches, and fallbacks of a run."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import parallel
from pallas_kernels import ExponentConfig, exponent_encode
from tests.parallel.calls import on_devices
from tests.parallel.inputs import any_bits

AXES = ("slow", "fast")
ALWAYS = ExponentConfig()
NBYTES = 4 * 5000


def report_of(mesh, body, x=None):
    x = jnp.zeros((8, 4, 5000), jnp.uint8) if x is None else x
    return parallel.wire_report(on_devices(mesh, body, 1).trace(x))


@pytest.mark.parametrize(
    ("call", "share", "num_messages"),
    [
        (lambda x: parallel.all_gather(x, "fast"), 3, 1),
        (lambda x: parallel.all_gather(x, "slow"), 1, 1),
        (lambda x: parallel.all_gather(x, AXES), 7, 1),
        (lambda x: parallel.psum_scatter(x, "fast"), 3 / 4, 1),
        (lambda x: parallel.all_to_all(x, "fast", 0, 0), 3 / 4, 1),
        (lambda x: parallel.ppermute(x, "fast", [(0, 1), (1, 0), (2, 2)]), 2 / 4, 1),
        (lambda x: vary(parallel.psum(x, "fast")), 2 * 3 / 4, 2),
        (lambda x: vary(parallel.psum(x[:, :100], "fast")), 3 / 50, 1),
    ],
)
def test_raw_formulas(mesh, call, share, num_messages):
    (row,) = report_of(mesh, lambda x: call(x[0])[None]).rows
    assert row.raw_nbytes == row.sent_nbytes == share * NBYTES
    assert row.num_messages == num_messages
    assert row.site.location.startswith("test_wire_report.py:")


def vary(x):
    return lax.pcast(x, "fast", to="varying")


def test_coded_sends_the_payload_and_a_flag(mesh):
    x = any_bits("bfloat16", (8, 70001))
    (row,) = report_of(mesh, lambda x: parallel.all_gather(x, "fast", codec=ALWAYS), x).rows
    payload = exponent_encode(x[:1], ALWAYS)
    flag_nbytes = 2 * 3 / 4 * 4
    assert row.raw_nbytes == 3 * 2 * 70001
    assert row.sent_nbytes == 3 * payload.nbytes + flag_nbytes
    assert row.num_messages == len(jax.tree.leaves(payload)) + 1


def test_sites_axes_and_gradients_have_their_own_rows(mesh):
    def body(x):
        def loss(x):
            y = parallel.all_gather(x, "fast", codec="exponent")
            return jnp.sum(parallel.ppermute(y, "slow", [(0, 1), (1, 0)]) ** 2)

        return jax.grad(loss)(x)

    report = report_of(mesh, body, jnp.zeros((8, 500), jnp.float32))
    found = {(row.site.op, row.site.backward, row.axis) for row in report.rows}
    assert found == {
        ("all_gather", False, ("fast",)),
        ("all_gather", True, ("fast",)),
        ("ppermute", False, ("slow",)),
        ("ppermute", True, ("slow",)),
    }
    by_axis = report.by_axis()
    assert by_axis[("fast",)].raw_nbytes == 2 * 3 * 2000
    assert by_axis[("slow",)].raw_nbytes == 2 * 4 * 2000
    assert report.raw_nbytes == sum(part.raw_nbytes for part in by_axis.values())


def test_scan_counts_each_step_and_remat_each_time(mesh):
    def body(x):
        step = jax.checkpoint(lambda x, _: (jnp.sin(parallel.ppermute(x, "fast", RING)), None))
        return jax.grad(lambda x: jnp.sum(lax.scan(step, x, length=5)[0]))(x)

    rows = report_of(mesh, body, jnp.zeros((8, 500), jnp.float32)).rows
    # Forward, and once more for the gradient of sin.
    assert {row.site.backward: row.raw_nbytes for row in rows} == {
        False: 2 * 5 * 2000,
        True: 5 * 2000,
    }


RING = [(rank, (rank + 1) % 4) for rank in range(4)]


def test_while_loops_are_shown_and_not_counted(mesh):
    send = lambda x: parallel.ppermute(x, "fast", RING)
    body = lambda x: lax.while_loop(lambda x: jnp.all(x < 0), send, x)
    report = report_of(mesh, body)
    (row,) = report.rows
    assert row.in_while
    assert row.raw_nbytes == NBYTES
    assert report.raw_nbytes == report.sent_nbytes == 0
    assert "a round" in report.table()


def test_of_a_users_branches_the_one_that_sends_more_counts(mesh):
    once = lambda x: parallel.ppermute(x, "fast", RING)
    body = lambda x: lax.cond(x[0, 0, 0] > 0, lambda x: once(once(x)), once, x)
    assert report_of(mesh, body).raw_nbytes == 2 * NBYTES


def test_collectives_of_jax_are_listed_as_raw(mesh):
    def body(x):
        return lax.all_gather(x, "fast")[0] + vary(lax.psum(x, "fast"))

    rows = {row.site.op: row for row in report_of(mesh, body).rows}
    gather, total = rows["lax.all_gather"], rows["lax.psum_invariant"]
    assert gather.raw_nbytes == gather.sent_nbytes == 3 * NBYTES
    assert total.raw_nbytes == total.sent_nbytes == 1.5 * NBYTES


def test_fallbacks_of_a_run(mesh):
    """Bytes of a run are those of the program and, for each fallback, what it sent beyond."""
    good = any_bits("bfloat16", (8, 70001))
    bad = good.copy()
    bad[2] = any_bits("uint16", (70001,)).view(good.dtype)
    gather = lambda x: parallel.all_gather(x, "fast", codec=ALWAYS)
    with parallel.record_fallbacks() as fallbacks:
        traced = on_devices(mesh, gather, 1).trace(good)
    program, report = traced.lower().compile(), parallel.wire_report(traced)

    program(good)
    assert fallbacks.counts() == {}
    assert report.run_nbytes(1, fallbacks, num_devices=8) == report.sent_nbytes
    for _ in range(3):
        program(bad)
    ((site, count),) = fallbacks.counts().items()
    assert (str(site), count) == (str(report.rows[0].site), 3 * 4)
    raw_more = report.raw_nbytes - (report.sent_nbytes - 2 * 3 / 4 * 4)
    want = 4 * report.sent_nbytes + 3 * raw_more * 4 / 8
    assert report.run_nbytes(4, fallbacks, num_devices=8) == pytest.approx(want)


def test_programs_traced_elsewhere_have_no_callback(mesh):
    """Counting is asked for where a program is traced; elsewhere it costs nothing."""
    gather = lambda x: parallel.all_gather(x, "fast", codec=ALWAYS)
    x = any_bits("bfloat16", (8, 70001))
    assert "callback" not in on_devices(mesh, gather, 1).lower(x).as_text()
    with parallel.record_fallbacks():
        assert "callback" in on_devices(mesh, lambda x: gather(x), 1).lower(x).as_text()


def test_small_operands_go_raw(mesh):
    """Up to the threshold "exponent" sends bits; a configuration asks for it whatever the size."""
    for num_elems, codec, coded in (
        (32767, "exponent", False),
        (32768, "exponent", True),
        (20000, ALWAYS, True),
        (20, ALWAYS, False),
    ):
        gather = lambda x, codec=codec: parallel.all_gather(x, "fast", codec=codec)
        report = report_of(mesh, gather, jnp.zeros((8, num_elems), jnp.bfloat16))
        assert (report.sent_nbytes < report.raw_nbytes) == coded, (num_elems, codec)


def test_table_and_json(mesh):
    report = report_of(mesh, lambda x: vary(parallel.psum(x, "fast")))
    assert json.loads(json.dumps(report.to_dict()))["raw_nbytes"] == report.raw_nbytes
    head, row, total = report.table().splitlines()
    assert head.split() == "call site axis messages raw MB sent MB sent/raw".split()
    assert row.split()[3:] == ["fast", "2", "0.030", "0.030", "1.000"]
    assert total.split() == ["total", "0.030", "0.030", "1.000"]


def test_accepts_a_jaxpr(mesh):
    body = lambda x: parallel.ppermute(x, "fast", RING)
    mapped = jax.shard_map(body, mesh=mesh, in_specs=P(AXES), out_specs=P(AXES))
    jaxpr = jax.make_jaxpr(mapped)(np.zeros((8, 3), np.int32))
    assert parallel.wire_report(jaxpr).raw_nbytes == 12
