"""GPU records become XLA's targets; topologies and tools are found or named."""

import dataclasses
import re
import sys

import pytest

from pallas_kernels import A100, B200, GPUS, H200, L40S, ArgumentError, UnsupportedError
from zipjax.dryrun import ToolchainError, Topology, parse_topology, ptxas_arch, target_config
from zipjax.dryrun.toolchain import find_toolchain

TOOLS = ("bin/ptxas", "bin/nvlink", "bin/nvdisasm", "nvvm/libdevice/libdevice.10.bc")


def fields(text: str) -> dict[str, str]:
    """The proto's scalars by name."""
    return dict(re.findall(r"(\w+): (\"[^\"]*\"|[^\s{}]+)", text))


def test_a_target_holds_the_record():
    target = fields(target_config(H200))
    assert target["core_count"] == "132"
    assert target["memory_bandwidth"] == "4800000000000"
    assert target["device_memory_size"] == str(H200.memory_nbytes)
    assert target["shared_memory_per_block_optin"] == "232448"
    assert target["clock_rate_ghz"] == "1.98"
    assert target["name"] == '"NVIDIA H200"'


@pytest.mark.parametrize(
    ("gpu", "arch", "extension"),
    [
        (H200, "sm_90a", "ACCELERATED_FEATURES"),
        (B200, "sm_100a", "ACCELERATED_FEATURES"),
        (L40S, "sm_89", "NONE"),
        (A100, "sm_80", "NONE"),
    ],
)
def test_accelerated_features_come_with_hopper(gpu, arch, extension):
    assert ptxas_arch(gpu) == arch
    assert fields(target_config(gpu))["feature_extension"] == extension


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_every_gpu_has_a_target(gpu):
    assert fields(target_config(gpu))["core_count"] == str(gpu.num_sms)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(UnsupportedError, match=r"8\.0, 8\.9, 9\.0, 10\.0\); got 7\.5"):
        target_config(dataclasses.replace(A100, compute_capability=(7, 5)))


@pytest.mark.parametrize(
    ("text", "topology"),
    [
        ("h200", Topology(H200)),
        ("H200:8", Topology(H200, 1, 8)),
        ("b200:4x8", Topology(B200, 4, 8)),
        ("rtx_4090:1x2", Topology(GPUS["RTX 4090"], 1, 2)),
    ],
)
def test_topologies_are_read(text, topology):
    assert parse_topology(text) == topology
    assert parse_topology(str(topology)) == topology


def test_a_topology_in_xla_s_words():
    assert parse_topology("h200:4x8").xla_name == "1x4x8"
    assert parse_topology("h200:4x8").num_gpus == 32


@pytest.mark.parametrize(
    "text", ["h200:", "h200:8x", "h200:-1", "h200:2x2x2", "h200:0x8", "h200:0"]
)
def test_counts_that_cannot_be_are_refused(text):
    with pytest.raises(ArgumentError, match="topology"):
        parse_topology(text)


def test_an_unknown_gpu_is_refused_with_the_nearest():
    with pytest.raises(UnsupportedError, match="did you mean 'H100'"):
        parse_topology("h1000:8")


def install(root, tools):
    for tool in tools:
        path = root / tool
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return root


def test_the_tools_may_be_in_two_folders(tmp_path):
    cuda = install(tmp_path / "cuda", [tool for tool in TOOLS if "nvdisasm" not in tool])
    other = install(tmp_path / "other", ["bin/nvdisasm"])
    tools = find_toolchain([other, cuda])
    assert (tools.cuda_root, tools.nvdisasm) == (cuda, other / "bin" / "nvdisasm")
    assert tools.ptxas == cuda / "bin" / "ptxas"


@pytest.mark.parametrize("missing", TOOLS)
def test_one_missing_tool_is_named(tmp_path, missing):
    install(tmp_path, [tool for tool in TOOLS if tool != missing])
    name = missing.rpartition("/")[2].partition(".")[0]
    with pytest.raises(ToolchainError, match=rf"no {name} in .*; pip install 'zipjax\[dryrun\]'"):
        find_toolchain([tmp_path])


@pytest.mark.skipif(
    sys.platform != "linux", reason="NVIDIA's compilers are installed on Linux alone"
)
def test_the_tools_of_this_environment_are_found():
    tools = find_toolchain()
    assert tools.ptxas.is_file() and tools.nvdisasm.is_file()
