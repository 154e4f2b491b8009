"""Every kernel in every shipped configuration, compiled for GPUs that are not there."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from pallas_kernels import A100, B200, H200, RTX_4090
from pallas_kernels.versions import MOSAIC_KNOWS_AMPERE
from zipjax.dryrun import CompileError, compile_kernels
from zipjax.dryrun.toolchain import find_toolchain

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def kernel_cases():
    """The module, and the processes that compile find it too."""
    path = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("kernel_cases")
        for name in ("kernel_cases", "kernel_cases_wire"):
            sys.modules.pop(name, None)


def check(cases, gpu):
    """What `benchmarks/kernels_static.py` holds every kernel to."""
    find_toolchain()
    reports = compile_kernels([case.kernel for case in cases], gpu)
    for case, report in zip(cases, reports, strict=True):
        assert not isinstance(report, CompileError), report
        assert report.spill_bytes == 0, case.kernel.title
        assert bool(report.tensor_core_instructions) == case.uses_tensor_cores, case.kernel.title
        for field, most in case.at_most.items():
            assert getattr(report, field) <= most, (case.kernel.title, field)


def few(cases):
    """One case of each kernel, the first with bars."""
    chosen = {}
    for case in cases:
        chosen.setdefault(case.kernel.name, case)
    return list(chosen.values())


@pytest.mark.parametrize("gpu", [H200], ids=lambda gpu: gpu.name)
def test_one_of_each_kernel(kernel_cases, gpu):
    check(few(kernel_cases.cases(gpu)), gpu)


@pytest.mark.slow
@pytest.mark.skipif(not MOSAIC_KNOWS_AMPERE, reason="Mosaic assumes Hopper before jax 0.11")
@pytest.mark.parametrize("gpu", [A100, RTX_4090], ids=lambda gpu: gpu.name)
def test_the_products_before_hopper(kernel_cases, gpu):
    cases = [case for case in kernel_cases.cases(gpu) if case.kernel.config["rows"] in (8, 64)]
    check(cases, gpu)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [H200, B200], ids=lambda gpu: gpu.name)
def test_every_shipped_configuration(kernel_cases, gpu):
    check(kernel_cases.cases(gpu), gpu)
