"""The process that compiles: `python -m zipjax.dryrun.child REQUEST`; only it runs JAX for CUDA.

It may die at any moment of what it compiles, so it leaves what it knows in files, program by
program: `I/phase` says what it is doing, `I/result.json` is there when it is done with program I.
"""

import dataclasses
import json
import os
import re
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from pallas_kernels import ZipError, assume
from zipjax.dryrun.log import begin
from zipjax.dryrun.program import CompiledProgram, MosaicKernel, Program, build
from zipjax.dryrun.targets import target_config
from zipjax.dryrun.topology import Topology, parse_topology


def main(request_path: Path) -> None:
    """Compile what the request lists, from its `first` program on."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected; its core is of no use
    request = json.loads(request_path.read_text())
    topology = parse_topology(request["topology"])
    devices = absent_devices(topology)
    for i, fields in enumerate(request["programs"]):
        if i < request["first"]:
            continue
        folder = request_path.parent / str(i)
        folder.mkdir(exist_ok=True)
        print(begin(i), end="", flush=True)
        result = attempt(Program(**fields), topology, devices, folder)
        aside = folder / "result.tmp"
        aside.write_text(json.dumps(result))
        aside.rename(folder / "result.json")


def absent_devices(topology: Topology) -> list[Any]:
    """GPUs to compile for, none of which is there."""
    description = topologies.get_topology_desc(
        topology.xla_name,
        "cuda",
        target_config=target_config(topology.gpu),
        topology=topology.xla_name,
    )
    return list(description.devices)


def attempt(program: Program, topology: Topology, devices: list[Any], folder: Path) -> dict:
    """The compiled program or the exception, as JSON can carry it."""
    try:
        with assume(topology.gpu):
            return {"compiled": dataclasses.asdict(compile_one(program, topology, devices, folder))}
    except Exception as error:  # whatever it is, the other programs have their turn
        traceback.print_exc()
        text = str(error) if isinstance(error, ZipError) else f"{type(error).__name__}: {error}"
        return {"error": text.rstrip(".")}


def compile_one(
    program: Program, topology: Topology, devices: list[Any], folder: Path
) -> CompiledProgram:
    """Trace, lower and compile; what Mosaic dumps is read and deleted."""
    os.environ["MOSAIC_GPU_DUMP_TO"] = str(folder)  # read anew for every kernel
    phase = folder / "phase"
    phase.write_text("making the program")
    function, operands = build(program, devices)
    sharding = NamedSharding(Mesh(np.array(devices), ("all",)), PartitionSpec())
    abstract = jax.tree.map(lambda operand: _abstract(operand, sharding), operands)
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    phase.write_text("tracing")
    start = time.perf_counter()
    with jax.default_device(devices[0]):  # Mosaic asks it for the architecture
        lowered = jitted.lower(*abstract)
    lowered_at = time.perf_counter()
    phase.write_text("compiling")
    compiled = lowered.compile()
    compile_s = time.perf_counter() - lowered_at
    memory = compiled.memory_analysis()
    return CompiledProgram(
        name=program.name,
        topology=str(topology),
        argument_bytes=memory.argument_size_in_bytes,
        output_bytes=memory.output_size_in_bytes,
        temp_bytes=memory.temp_size_in_bytes,
        trace_s=lowered_at - start,
        compile_s=compile_s,
        kernels=tuple(_kernels(folder)),
    )


def _abstract(operand: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
    own = operand.sharding if isinstance(operand, jax.ShapeDtypeStruct) else None
    return jax.ShapeDtypeStruct(operand.shape, operand.dtype, sharding=own or sharding)


def _kernels(folder: Path) -> list[MosaicKernel]:
    """Mosaic's dumps: NAME_NUMBER.ptx, .ptxas, and a log of passes, megabytes long."""
    found = sorted(folder.glob("*.ptx"), key=lambda path: path.stat().st_mtime_ns)
    kernels = [
        MosaicKernel(
            name=path.stem,
            ptx=path.read_text(),
            build_log=path.with_suffix(".ptxas").read_text(),
            smem_bytes=_dynamic_smem(path.with_suffix(".mlir-passes.log")),
        )
        for path in found
    ]
    for path in folder.glob("*"):
        if path.name != "phase":
            path.unlink()
    return kernels


def _dynamic_smem(passes_log: Path) -> int:
    """Bytes with which the kernel is launched, from the first form of its module."""
    constants: dict[str, int] = {}
    with passes_log.open() as lines:
        for line in lines:
            if constant := re.search(r"(%\S+) = arith\.constant (\d+) : i32", line):
                constants[constant[1]] = int(constant[2])
            if launch := re.search(r"gpu\.launch\b.* dynamic_shared_memory_size (%\S+)", line):
                return constants[launch[1]]
    return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
