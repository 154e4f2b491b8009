"""Programs compile for GPUs that are not there, and nothing that goes wrong harms this process."""

import os
import re
import sys
from pathlib import Path

import pytest

from pallas_kernels import ArgumentError, UnsupportedError
from zipjax.dryrun import (
    CompileError,
    KernelCase,
    LoopWork,
    Program,
    ToolchainError,
    compile_kernels,
    compile_programs,
)
from zipjax.dryrun.toolchain import find_toolchain

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="JAX's CUDA plug-in, which compiles, is made for Linux alone"
)

CASES = "tests.zipjax.dryrun_cases"
WEIGHTS_PER_THREAD = 64 * 64 / 128
TOY = {"num_columns": 16, "num_steps": 8}


def program(name: str, **arguments) -> Program:
    return Program(name=name, factory=f"{CASES}:{name}", arguments=arguments)


def toy(**changes) -> KernelCase:
    fields = {
        "name": "toy_matmul",
        "config": {"M": 16},
        "factory": f"{CASES}:toy_matmul",
        "arguments": TOY,
        "work": LoopWork(weights_per_thread=WEIGHTS_PER_THREAD, hbm_bytes_per_weight=2),
    }
    return KernelCase(**(fields | changes))


@pytest.fixture(scope="module")
def outcomes():
    """One call with all that can happen; its order mixes what works with what does not.

    The caller's own settings would stop it: an unknown XLA flag aborts a process.
    """
    programs = [
        program("plain", size=512),
        program("segfault"),
        program("toy_matmul", **TOY),
        program("leave"),
        program("the_kind"),
        program("nothing"),
        Program(name="missing", factory=f"{CASES}:missing"),
        program("sum_over"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
        patch.setenv("JAX_ENABLE_X64", "not a boolean")
        before = dict(os.environ)
        done = compile_programs(programs, "h200:2x4")
        assert dict(os.environ) == before  # what the compiler is told goes to the child alone
    assert len(done) == len(programs)
    return {program.name: outcome for program, outcome in zip(programs, done, strict=True)}


def test_a_plain_program_compiles(outcomes):
    plain = outcomes["plain"]
    assert plain.topology == "h200:2x4"
    assert plain.argument_bytes == plain.output_bytes == 2 * 512**2
    assert plain.kernels == ()


def test_a_program_may_ask_for_the_devices(outcomes):
    """Eight of them share the argument."""
    assert outcomes["sum_over"].argument_bytes == 4 * 1024 * 256 // 8


def test_a_mosaic_kernel_leaves_its_ptx(outcomes):
    (kernel,) = outcomes["toy_matmul"].kernels
    assert ".target sm_90a" in kernel.ptx
    assert "registers" in kernel.build_log
    # two steps of both operands, 16 bits each, and barriers
    assert 0 < kernel.smem_bytes - 2 * 2 * 64 * (64 + 16) < 1024


def test_a_crash_is_an_error(outcomes):
    error = outcomes["segfault"]
    assert isinstance(error, CompileError) and error.kind == "crash"
    assert error.program == "segfault"
    assert "SIGSEGV while making the program" in str(error)


def test_an_early_end_is_an_error_with_its_last_words(outcomes):
    error = outcomes["leave"]
    assert error.kind == "crash"
    assert "exit code 3" in str(error) and "fatal: no room left" in str(error)


def test_an_exception_is_an_error(outcomes):
    assert outcomes["the_kind"].kind == "error"
    assert "ValueError: made for H200" in str(outcomes["the_kind"])


def test_a_factory_must_be_there_and_return_a_program(outcomes):
    assert "'tests.zipjax.dryrun_cases:missing'" in str(outcomes["missing"])
    assert "a function and a tuple of its arguments; got int" in str(outcomes["nothing"])


def test_a_hang_is_ended():
    (error,) = compile_programs([program("hang")], "h200", timeout_s=1)
    assert error.kind == "timeout"
    assert "took longer than 1 s; it was making the program" in str(error)


@pytest.mark.parametrize(
    ("topology", "raises", "text"),
    [("h20", UnsupportedError, "did you mean 'H200'"), ("h200:8y8", ArgumentError, "h200:1x8")],
)
def test_an_unknown_topology_is_refused(topology, raises, text):
    with pytest.raises(raises, match=text):
        compile_programs([program("plain", size=8)], topology)


def test_names_must_differ():
    with pytest.raises(ArgumentError, match="names that differ"):
        compile_programs([program("plain", size=8)] * 2, "h200")


def test_a_missing_tool_is_named(tmp_path):
    with pytest.raises(ToolchainError, match=r"no ptxas, nvlink, libdevice, nvdisasm.*dryrun"):
        find_toolchain([tmp_path])


def test_a_broken_start_is_told_once(tmp_path, monkeypatch):
    """A module that shadows one of ours stands in for a broken installation."""
    (tmp_path / "pallas_kernels.py").write_text("raise RuntimeError('error: broken on purpose')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ToolchainError, match=r"must start; got .*broken on purpose"):
        compile_programs([program("plain", size=8), program("the_kind")], "h200")


def test_what_the_documentation_shows_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs" / "dryrun.md").read_text(encoding="utf-8")
    caller, module, case = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_programs.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict = {}
    exec(compile(caller, "docs/dryrun.md", "exec"), names)
    assert [line.rsplit(" ", 2)[0] for line in capsys.readouterr().out.splitlines()] == [
        "square 512",
        "square 1024",
    ]
    exec(compile(case.rpartition("(report,)")[0], "docs/dryrun.md", "exec"), names)
    assert isinstance(names["case"], KernelCase)


def test_kernels_are_reported():
    cases = [
        toy(),
        toy(name="toy_copy", factory=f"{CASES}:toy_copy", arguments={"size": 128}),
        toy(name="plain", factory=f"{CASES}:plain", arguments={"size": 8}),
    ]
    matmul, copy, error = compile_kernels(cases, "h200")
    assert (matmul.name, matmul.gpu, matmul.config) == ("toy_matmul", "H200", {"M": 16})
    assert 0 < matmul.registers <= 255
    assert matmul.spill_bytes == 0
    # one wgmma for each 16 of 64 columns, in the loop and nowhere else
    assert matmul.tensor_core_instructions == matmul.kernel_tensor_core_instructions == 4
    # each weight is read from shared memory once, in whatever widths, and is changed with its pair
    assert matmul.smem_bytes_per_weight == 2
    assert 0.5 <= matmul.alu_instructions_per_weight <= matmul.issue_slots_per_weight < 3
    assert matmul.waiting_instructions > 0
    assert matmul.hbm_bytes_per_weight == 2
    assert sum(matmul.main_loop.values()) == matmul.issue_slots_per_weight * WEIGHTS_PER_THREAD
    assert copy.tensor_core_instructions == 0
    assert any(warning.startswith("no loop") for warning in copy.warnings)
    assert "plain(M=16): a case has one Mosaic kernel; got none" in str(error)
