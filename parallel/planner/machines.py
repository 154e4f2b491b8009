"""Well-known machines, each figure with its source.

Fitted figures of papers are the papers' own, also where they look wrong; `sources` says so then.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pallas_kernels import H100, H200, Gpu, UnsupportedError
from parallel.planner.cost import Line
from parallel.planner.machine import CodecRate, Kernels, Link, Machine

_MS = 1e-3


def _fits(**lines: tuple[float, float]) -> Mapping[str, Line]:
    """Lines from milliseconds and milliseconds per byte, as the papers print them."""
    return MappingProxyType({name: Line(a * _MS, b * _MS) for name, (a, b) in lines.items()})


_FSMOE = "FSMoE paper, fitted performance models"
_ASSUMED = "no measurement: a round figure of the kind"

FSMOE_A = Machine(
    name="fsmoe-a",
    num_intra=8,
    inter=Link(
        latency_s=0.287 * _MS / 5,
        s_per_byte=2.21e-7 * _MS,
        fits=_fits(all_to_all=(0.287, 2.21e-7), all_reduce=(0.511, 4.95e-6)),
    ),
    intra=Link(
        latency_s=0.337 * _MS / 7,
        s_per_byte=2.34e-7 * _MS,
        fits=_fits(all_gather=(0.337, 2.32e-6), reduce_scatter=(0.395, 2.34e-7)),
    ),
    kernels=Kernels(
        flops_per_s=1 / (2.29e-11 * _MS),
        bytes_per_s=768e9,
        launch_s=10e-6,
        matmul=Line(4.26e-2 * _MS, 2.29e-11 * _MS),
    ),
    sources=MappingProxyType(
        {
            "inter, intra, matmul": f"{_FSMOE}, testbed A: 48 RTX A6000 (6 nodes of 8), 200 Gb/s",
            "doubt": "the slopes of all_gather and all_reduce are ten times those of "
            "reduce_scatter and of testbed B: probably misprints, kept as printed",
            "bytes_per_s": "NVIDIA RTX A6000 datasheet",
            "launch_s, latency_s": _ASSUMED,
        }
    ),
)

FSMOE_B = Machine(
    name="fsmoe-b",
    num_intra=4,
    inter=Link(
        latency_s=0.175 * _MS / 7,
        s_per_byte=3.06e-7 * _MS,
        fits=_fits(all_to_all=(0.175, 3.06e-7), all_reduce=(0.0837, 5.99e-7)),
    ),
    intra=Link(
        latency_s=0.032 * _MS / 3,
        s_per_byte=1.68e-7 * _MS,
        fits=_fits(all_gather=(0.032, 1.68e-7), reduce_scatter=(0.0391, 1.67e-7)),
    ),
    kernels=Kernels(
        flops_per_s=1 / (4.42e-11 * _MS),
        bytes_per_s=616e9,
        launch_s=10e-6,
        matmul=Line(9.24e-2 * _MS, 4.42e-11 * _MS),
    ),
    sources=MappingProxyType(
        {
            "inter, intra, matmul": f"{_FSMOE}, testbed B: 32 RTX 2080 Ti (8 nodes of 4), 100 Gb/s",
            "bytes_per_s": "NVIDIA RTX 2080 Ti datasheet",
            "launch_s, latency_s": _ASSUMED,
        }
    ),
)

HIERMOE = Machine(
    name="hiermoe",
    num_intra=8,
    inter=Link(
        latency_s=0.722 * _MS / 31,
        s_per_byte=5.70e-7 * _MS,
        fits=_fits(all_to_all=(0.497, 5.29e-7), flat_all_to_all=(0.722, 5.70e-7)),
    ),
    intra=Link(
        latency_s=0.571 * _MS / 7,
        s_per_byte=1.27e-7 * _MS,
        fits=_fits(all_to_all=(0.571, 1.27e-7)),
    ),
    kernels=Kernels(
        flops_per_s=1 / (2.29e-11 * _MS),
        bytes_per_s=768e9,
        launch_s=10e-6,
        matmul=Line(4.26e-2 * _MS, 2.29e-11 * _MS),
    ),
    sources=MappingProxyType(
        {
            "inter, intra": "HierMoE paper, fitted alpha and beta: inter-1, intra-1 and "
            "the standard exchange; 32 RTX A6000 (4 nodes of 8), 200 Gb/s",
            "matmul": f"{_FSMOE}, testbed A, the same GPU",
            "bytes_per_s": "NVIDIA RTX A6000 datasheet",
            "launch_s, latency_s": _ASSUMED,
        }
    ),
)


def _hopper(gpu: Gpu) -> Machine:
    return Machine(
        name=gpu.name.casefold(),
        num_intra=8,
        # A device sends through its own 400 Gb/s adapter, and through 18 NVLink links.
        inter=Link(latency_s=10e-6, s_per_byte=1 / (0.85 * 50e9)),
        intra=Link(latency_s=3e-6, s_per_byte=1 / (0.75 * 450e9)),
        kernels=Kernels(
            flops_per_s=0.7 * gpu.bf16_flops_per_s,
            bytes_per_s=0.85 * gpu.memory_bytes_per_s,
            launch_s=5e-6,
        ),
        # The codec reads and writes memory about twice over in all.
        codec=CodecRate(
            ratio=11.32 / 16,
            encode_bytes_per_s=0.3 * gpu.memory_bytes_per_s,
            decode_bytes_per_s=0.4 * gpu.memory_bytes_per_s,
            start_s=10e-6,
        ),
        sources=MappingProxyType(
            {
                "flops_per_s": f"0.7 (assumed) of {gpu.sources['bf16_flops_per_s']}",
                "bytes_per_s": f"0.85 (assumed) of {gpu.sources['memory_bytes_per_s']}",
                "inter": "NVIDIA DGX H100 datasheet: 8 x ConnectX-7 of 400 Gb/s; 0.85 assumed",
                "intra": f"NVIDIA {gpu.name} datasheet: NVLink 900 GB/s both ways; 0.75 assumed",
                "codec": "ratio as in docs/wire-format.md; rates assumed from bytes moved",
                "latency_s, launch_s": _ASSUMED,
            }
        ),
    )


H100_NODES = _hopper(H100)
H200_NODES = _hopper(H200)

ETHERNET_1G = Machine(
    name="ethernet-1g",
    num_intra=4,
    inter=Link(latency_s=0.5e-3, s_per_byte=8 / 0.95e9),
    intra=Link(latency_s=20e-6, s_per_byte=1 / 2e9),
    kernels=Kernels(flops_per_s=50e9, bytes_per_s=10e9, launch_s=20e-6),
    codec=CodecRate(
        ratio=11.32 / 16, encode_bytes_per_s=3.5e9, decode_bytes_per_s=5.5e9, start_s=50e-6
    ),
    sources=MappingProxyType(
        {
            "inter": "1 Gbit/s Ethernet between CPU hosts: 0.95 of the rate, as iperf3 finds",
            "codec": "docs/performance.md: one core",
            "intra, kernels, latency_s": _ASSUMED,
        }
    ),
)

MACHINES: Mapping[str, Machine] = MappingProxyType(
    {m.name: m for m in (FSMOE_A, FSMOE_B, HIERMOE, H100_NODES, H200_NODES, ETHERNET_1G)}
)


def machine_of(name: str) -> Machine:
    """A shipped machine by its name.

    Raises:
        UnsupportedError: there is none; the message lists them.
    """
    if name in MACHINES:
        return MACHINES[name]
    raise UnsupportedError(
        f"known machines are {', '.join(MACHINES)}", got=repr(name), fix="or pass a machine file"
    )
