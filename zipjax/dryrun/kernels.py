"""From kernels to their reports: compile, assemble, disassemble, count."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pallas_kernels import Gpu, ZipError, gpu_of
from zipjax.dryrun.compile import compile_programs
from zipjax.dryrun.errors import CompileError
from zipjax.dryrun.program import CompiledProgram, MosaicKernel, Program
from zipjax.dryrun.ptxas import LINKAGES, Linkage, assemble
from zipjax.dryrun.report import KernelReport, LoopWork, report_kernel, worse_of
from zipjax.dryrun.sass import disassemble, entry_function, parse_sass
from zipjax.dryrun.targets import ptxas_arch
from zipjax.dryrun.toolchain import Toolchain, find_toolchain
from zipjax.dryrun.topology import Topology


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelCase:
    """A kernel in one configuration.

    Attributes:
        name: the kernel's, e.g. "decode_matmul".
        config: what tells this case from the others of its name.
        factory: "module:function", which makes the program around it (`Program.factory`).
        arguments: of the factory.
        work: what a trip of its main loop does.
        dump_name: how Mosaic's name of the kernel starts, where the program has more than one.
    """

    name: str
    config: Mapping[str, Any]
    factory: str
    work: LoopWork
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dump_name: str = ""

    @property
    def title(self) -> str:
        """Name and configuration in one."""
        settings = ", ".join(f"{key}={value}" for key, value in self.config.items())
        return f"{self.name}({settings})" if settings else self.name


def compile_kernels(
    cases: Sequence[KernelCase],
    gpu: Gpu | str,
    *,
    timeout_s: float = 120.0,
    toolchain: Toolchain | None = None,
) -> list[KernelReport | CompileError]:
    """Compile each kernel for a GPU that is not there and count what it would do.

    Args:
        cases: the kernels; no two of one name and configuration.
        gpu: e.g. "h200".
        timeout_s: seconds that one may take; the start of JAX does not count.
        toolchain: where ptxas and the others are; found by itself by default.

    Returns:
        In the order of `cases`, a report of each, or why there is none: an error does not stop the
        others.

    Raises:
        ArgumentError: two cases of one name and configuration.
        ToolchainError: something is not installed; it says what.
        UnsupportedError: an unknown GPU.
    """
    target = gpu_of(gpu) if isinstance(gpu, str) else gpu
    tools = toolchain or find_toolchain()
    programs = [
        Program(name=case.title, factory=case.factory, arguments=case.arguments) for case in cases
    ]
    compiled = compile_programs(programs, Topology(target), timeout_s=timeout_s, toolchain=tools)
    return [
        outcome if isinstance(outcome, CompileError) else _report(case, outcome, target, tools)
        for case, outcome in zip(cases, compiled, strict=True)
    ]


def _report(
    case: KernelCase, compiled: CompiledProgram, gpu: Gpu, tools: Toolchain
) -> KernelReport | CompileError:
    """The worse of the two ways in which XLA assembles kernels.

    jax 0.10 makes whole programs; jax 0.12 does too, but where nvJitLink is installed, as with
    jax[cuda13], it links.
    """
    try:
        kernel = _only_kernel(case, compiled)
        whole, linked = (_report_build(case, kernel, gpu, tools, linkage) for linkage in LINKAGES)
        return worse_of(whole, linked)
    except CompileError as error:
        return error
    except ZipError as error:  # machine code of a kind that is new to us
        what = "its machine code could not be read"
        return CompileError.of(case.title, "error", what, got=str(error).rstrip("."))


def _report_build(
    case: KernelCase, kernel: MosaicKernel, gpu: Gpu, tools: Toolchain, linkage: Linkage
) -> KernelReport:
    cubin, resources = assemble(case.title, kernel.ptx, ptxas_arch(gpu), tools.ptxas, linkage)
    function = entry_function(kernel.ptx, parse_sass(disassemble(cubin, tools.nvdisasm)))
    return report_kernel(
        case.name,
        gpu.name,
        case.config,
        kernel=kernel,
        function=function,
        resources=resources,
        work=case.work,
    )


def _only_kernel(case: KernelCase, compiled: CompiledProgram) -> MosaicKernel:
    found = [kernel for kernel in compiled.kernels if kernel.name.startswith(case.dump_name)]
    if len(found) != 1:
        names = ", ".join(kernel.name for kernel in compiled.kernels) or "none"
        raise CompileError.of(
            case.title,
            "error",
            "a case has one Mosaic kernel",
            got=names,
            fix="name it by dump_name" if found else "is it compiled by XLA alone?",
        )
    return found[0]
