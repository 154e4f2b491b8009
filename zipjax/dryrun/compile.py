"""Compile programs for GPUs that are not there, in a process that may crash."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pallas_kernels import ArgumentError
from zipjax.dryrun.errors import CompileError, ToolchainError
from zipjax.dryrun.log import last_words
from zipjax.dryrun.program import CompiledProgram, MosaicKernel, Program
from zipjax.dryrun.toolchain import Toolchain, find_toolchain, require_plugin
from zipjax.dryrun.topology import Topology, parse_topology

# Settings of the caller's own JAX mean something else in a process that compiles for another
# machine; an unknown flag in XLA_FLAGS even aborts it.
_FOREIGN = ("JAX_", "XLA_", "CUDA_", "TF_", "MOSAIC_", "NVIDIA_", "NCCL_")
_POLL_S = 0.02

# Importing JAX and describing the topology takes about two seconds, on a machine with much else to
# do many times that.
_START_S = 120.0


def compile_programs(
    programs: Sequence[Program],
    topology: Topology | str,
    *,
    timeout_s: float = 120.0,
    toolchain: Toolchain | None = None,
) -> list[CompiledProgram | CompileError]:
    """Compile each program for a topology without its GPUs, and without risk to this process.

    One child process compiles them one after another; where it dies of one, another goes on with
    the next. Importing JAX takes it about two seconds, a kernel about one.

    Args:
        programs: what to compile; names must differ.
        topology: e.g. "h200" or "h200:8x8".
        timeout_s: seconds that one program may take; the start of the child does not count.
        toolchain: where ptxas and the others are; found by itself by default.

    Returns:
        In the order of `programs`, what came of each: an error does not stop the others.

    Raises:
        ArgumentError: two programs of one name, or a topology that cannot be read.
        ToolchainError: something is not installed; it says what.
        UnsupportedError: an unknown GPU.
    """
    names = [program.name for program in programs]
    if len(set(names)) < len(names):
        raise ArgumentError("programs need names that differ", got=", ".join(names))
    where = parse_topology(topology) if isinstance(topology, str) else topology
    require_plugin()
    environment = _environment(toolchain or find_toolchain())
    outcomes: list[CompiledProgram | CompileError] = []
    with tempfile.TemporaryDirectory(prefix="zipjax-dryrun-") as folder:
        while len(outcomes) < len(programs):
            request = {
                "topology": str(where),
                "programs": [dataclasses.asdict(program) for program in programs],
                "first": len(outcomes),
            }
            outcomes += _child(Path(folder), request, environment, timeout_s)
    return outcomes


def _child(
    folder: Path, request: dict[str, Any], environment: dict[str, str], timeout_s: float
) -> Iterator[CompiledProgram | CompileError]:
    """Run a child until it is done, dead or stuck: an outcome for each program that it began."""
    path = folder / "request.json"
    path.write_text(json.dumps(request))
    # -P: modules come from where this process has them, not from the folder it happens to be in.
    python = [sys.executable, "-P", "-X", "faulthandler"]
    with (
        (folder / "log").open("w+") as log,
        subprocess.Popen(
            [*python, "-m", "zipjax.dryrun.child", str(path)],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        try:
            first = request["first"]
            for i, program in enumerate(request["programs"][first:], first):
                begun, result = folder / str(i) / "phase", folder / str(i) / "result.json"
                _wait(process, begun, _START_S)
                if not begun.exists():
                    _end(process)
                    if i == first:
                        raise _no_start(folder, process)
                    return  # it died between two programs: another child goes on
                is_late = not _wait(process, result, timeout_s)
                words = last_words((folder / "log").read_text(errors="replace"), i)
                if not result.exists():
                    _end(process)
                    doing = _doing(folder / str(i))
                    yield _death(program["name"], doing, words, process, is_late and timeout_s)
                    return
                yield _outcome(program["name"], json.loads(result.read_text()), words)
        finally:
            _end(process)


def _wait(process: subprocess.Popen, sign: Path, limit_s: float) -> bool:
    """Until the file or the end of the process is there; False when neither came in time."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if process.poll() is not None or sign.exists():
            return True
        time.sleep(_POLL_S)
    return False


def _end(process: subprocess.Popen) -> None:
    """End the child and what it started (ptxas, nvlink), all of which is in its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _outcome(name: str, result: dict[str, Any], words: str) -> CompiledProgram | CompileError:
    if "error" in result:
        got = f"{result['error']} ({words})" if words else result["error"]
        return CompileError.of(name, "error", "did not compile", got=got)
    fields = result["compiled"]
    kernels = tuple(MosaicKernel(**kernel) for kernel in fields.pop("kernels"))
    return CompiledProgram(**fields, kernels=kernels)


def _no_start(folder: Path, process: subprocess.Popen) -> ToolchainError:
    log = (folder / "log").read_text(errors="replace").strip()
    return ToolchainError(
        "the compiling process must start",
        got=log.splitlines()[-1] if log else f"exit code {process.returncode}",
        fix="compare with what `pip install 'zipjax[dryrun]'` installs",
    )


def _doing(folder: Path) -> str:
    """What the child was at, by what it wrote and dumped."""
    doing = (folder / "phase").read_text()
    dumped = doing == "compiling" and any(folder.glob("*.ptx"))
    return "assembling the PTX of a kernel" if dumped else doing


def _death(
    name: str,
    doing: str,
    words: str,
    process: subprocess.Popen,
    timeout_s: float | Literal[False],
) -> CompileError:
    """Say how a child ended, at what, and its last words."""
    if timeout_s:
        what = f"took longer than {timeout_s:g} s; it was {doing}"
        return CompileError.of(name, "timeout", what, got=words, fix="raise timeout_s")
    code = process.returncode
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    what = f"the compiling process ended with {how} while {doing}"
    return CompileError.of(name, "crash", what, got=words)


def _environment(toolchain: Toolchain) -> dict[str, str]:
    """What the child sees: our modules and tools, the CPU, and no setting of the caller's JAX."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    tools = str(toolchain.cuda_root / "bin")
    return kept | {
        "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
        "PATH": os.pathsep.join([tools, kept.get("PATH", os.defpath)]),
        "CUDA_ROOT": str(toolchain.cuda_root),
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "MOSAIC_GPU_DUMP_PTX": "1",
        "MOSAIC_GPU_DUMP_PTXAS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "1",
    }
