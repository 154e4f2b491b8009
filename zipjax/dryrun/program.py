"""What is compiled, named so that another process can find it, and what came of it."""

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pallas_kernels import ArgumentError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A program by the name of the function that makes it.

    Attributes:
        name: what reports and errors call it.
        factory: "module:function". The function takes `arguments` and, where it has a parameter of
            that name, `devices`: the absent GPUs as a list. It returns a function, jitted or not,
            and a tuple of its arguments: any tree of `jax.ShapeDtypeStruct` or arrays. What says no
            sharding is replicated over all devices. `pallas_kernels.current_gpu()` is the absent
            GPU's kind, there and while the function is traced.
        arguments: what JSON can carry.
    """

    name: str
    factory: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MosaicKernel:
    """A Pallas Mosaic GPU kernel inside a compiled program.

    Attributes:
        name: Mosaic's name of the dump: the kernel's and a number.
        ptx: its PTX.
        build_log: what ptxas and nvlink said when XLA built it.
        smem_bytes: dynamic shared memory of a block, as launched.
    """

    name: str
    ptx: str
    build_log: str
    smem_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompiledProgram:
    """A program that compiled for a GPU that is not there.

    Attributes:
        name: the program's.
        topology: what it was compiled for, e.g. "h200:1x1".
        argument_bytes: of one GPU.
        output_bytes: of one GPU.
        temp_bytes: of one GPU.
        trace_s: seconds to trace and lower.
        compile_s: seconds to compile.
        kernels: its Mosaic kernels, in the order of compilation.
    """

    name: str
    topology: str
    argument_bytes: int
    output_bytes: int
    temp_bytes: int
    trace_s: float
    compile_s: float
    kernels: tuple[MosaicKernel, ...]


def build(program: Program, devices: Sequence[Any]) -> tuple[Callable, tuple]:
    """Call the factory: the function and its arguments.

    Raises:
        ArgumentError: there is no such factory, or it returned something else.
    """
    module_name, _, function_name = program.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError(
            "a factory is named 'module:function' and can be imported",
            got=f"{program.factory!r} ({error})",
        ) from error
    takes_devices = "devices" in inspect.signature(factory).parameters
    extra = {"devices": list(devices)} if takes_devices else {}
    made = factory(**program.arguments, **extra)
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0])):
        raise ArgumentError(
            f"{program.factory} must return a function and a tuple of its arguments",
            got=type(made).__name__,
        )
    return made[0], tuple(made[1])
