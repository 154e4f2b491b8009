"""Errors, dispatch and the GPU records."""

import pickle

import pytest

from pallas_kernels import (
    GPUS,
    H200,
    ArgumentError,
    ChecksumError,
    FormatError,
    Gpu,
    UnsupportedError,
    ZipError,
    assume,
    current_gpu,
    gpu_of,
)
from pallas_kernels.dispatch import dispatch
from pallas_kernels.shapes import capacity_of


def test_an_error_says_what_got_and_fix():
    error = ArgumentError("x must be even", got=3, fix="add one")
    assert str(error) == "x must be even; got 3; add one."
    assert str(ZipError("it broke")) == "it broke."
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (ArgumentError, str(error))


def test_errors_are_also_what_callers_expect():
    assert issubclass(UnsupportedError, NotImplementedError)
    assert issubclass(ArgumentError, ValueError)
    assert issubclass(ChecksumError, FormatError)


def refuse(reason):
    def backend(*_):
        raise UnsupportedError(reason)

    return backend


def test_dispatch_takes_the_first_that_does_not_refuse():
    backends = {"fast": refuse("needs a GPU"), "xla": lambda x: x + 1}
    assert dispatch("op", backends, None, 1) == 2
    assert dispatch("op", backends, "xla", 1) == 2
    assert dispatch("op", backends, ["fast", "xla"], 1) == 2


def test_dispatch_lists_every_reason():
    backends = {"fast": refuse("needs a GPU"), "slow": refuse("out of memory")}
    with pytest.raises(UnsupportedError, match=r"fast: needs a GPU; slow: out of memory"):
        dispatch("op", backends, None, 1)
    with pytest.raises(UnsupportedError, match=r"^needs a GPU\.$"):
        dispatch("op", backends, "fast", 1)


def test_dispatch_does_not_hide_other_errors():
    def broken(_):
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        dispatch("op", {"fast": broken, "xla": lambda x: x}, None, 1)


def test_dispatch_refuses_unknown_names():
    with pytest.raises(ArgumentError, match="one of fast, xla; got 'xls'; did you mean 'xla'"):
        dispatch("op", {"fast": refuse(""), "xla": refuse("")}, "xls", 1)
    with pytest.raises(ArgumentError, match="at least one"):
        dispatch("op", {"xla": refuse("")}, [], 1)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_gpu_records_are_consistent(gpu):
    assert gpu_of(gpu.name) is gpu
    assert gpu_of(gpu.device_kinds[0]) is gpu
    assert gpu.smem_per_block_nbytes < gpu.smem_per_sm_nbytes <= 256 * 1024
    assert all(gpu.sources.values())
    # Four tensor cores to a multiprocessor, 64 (GeForce, which adds into float32 at half rate) to
    # 1024 bf16 multiply-adds a clock each.
    per_core = gpu.bf16_flops_per_s / (gpu.num_sms * 4 * 2 * gpu.clock_hz)
    assert 60 < per_core < 1025
    # The roofline's knee is between 100 and 450 operations a byte on every card of these years.
    assert 100 < gpu.flops_per_byte < 450


def test_a_figure_without_a_source_is_refused():
    fields = {name: getattr(H200, name) for name in H200.__dataclass_fields__}
    fields["sources"] = {k: v for k, v in H200.sources.items() if k != "clock_hz"}
    with pytest.raises(ArgumentError, match=r"needs a source.*clock_hz"):
        Gpu(**fields)


def test_assume_is_scoped():
    before = current_gpu()
    with assume(H200):
        assert current_gpu() is H200
        with assume(GPUS["A100"]):
            assert current_gpu().name == "A100"
        assert current_gpu() is H200
    assert current_gpu() == before


def test_unknown_gpus_are_refused_with_advice():
    with pytest.raises(UnsupportedError, match="did you mean 'H200'"):
        gpu_of("h20")


def test_capacities_hold_and_are_few():
    assert all(capacity_of(count) >= count for count in range(200_000))
    assert len({capacity_of(count) for count in range(200_000)}) < 100
    assert all(capacity_of(count) <= 1.125 * count for count in range(4097, 200_000))
