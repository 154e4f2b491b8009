"""Compile for GPUs that are not there, and read what the compilers made."""

from zipjax.dryrun.compile import compile_programs as compile_programs
from zipjax.dryrun.errors import CompileError as CompileError
from zipjax.dryrun.errors import ToolchainError as ToolchainError
from zipjax.dryrun.kernels import KernelCase as KernelCase
from zipjax.dryrun.kernels import compile_kernels as compile_kernels
from zipjax.dryrun.program import CompiledProgram as CompiledProgram
from zipjax.dryrun.program import MosaicKernel as MosaicKernel
from zipjax.dryrun.program import Program as Program
from zipjax.dryrun.report import KernelReport as KernelReport
from zipjax.dryrun.report import LoopWork as LoopWork
from zipjax.dryrun.targets import ptxas_arch as ptxas_arch
from zipjax.dryrun.targets import target_config as target_config
from zipjax.dryrun.topology import Topology as Topology
from zipjax.dryrun.topology import parse_topology as parse_topology
