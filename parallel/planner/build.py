"""From sizes to work: a workload on a machine becomes a step.

Bytes of a collective are those of the larger of a device's operand and result, as in `Link.cost`.
Routing is taken to be balanced, experts of a token to be drawn at random.
"""

from dataclasses import dataclass
from itertools import product

from pallas_kernels import ArgumentError, UnsupportedError
from parallel.planner import roofline
from parallel.planner.cost import Cost, Line
from parallel.planner.machine import Machine
from parallel.planner.routing_stats import num_groups_reached
from parallel.planner.step import Pass, Step, Work
from parallel.planner.workload import Workload


@dataclass(frozen=True, order=True)
class Variant:
    """How tokens travel.

    Attributes:
        levels: 0: a copy for every expert in one flat exchange; 1: one flat exchange, a copy for
            every device; 2: a copy for every node over the slow link, spread within it. Of layout
            "everywhere"; others have 0.
        compressed: whether a lossless codec goes before and after the slow link.
        split: of layout "replicated": "" when every device sends every token; "S1" when tokens are
            split over the node before the gate and gathered after the mixture; "S2" when copies
            are split after the gate, and gathered (Parm).
    """

    levels: int = 0
    compressed: bool = False
    split: str = ""


def variants(workload: Workload, machine: Machine) -> list[Variant]:
    """Every way in which the tokens of `workload` can travel on `machine`."""
    levels: tuple[int, ...] = (0,)
    if workload.layout == "everywhere" and workload.num_experts % workload.num_devices == 0:
        levels = (0, 1, 2) if min(workload.num_inter, workload.num_intra) > 1 else (0, 1)
    splits = ("", "S1", "S2") if workload.layout == "replicated" else ("",)
    codecs = (False,) if machine.codec is None else (False, True)
    return [Variant(*choice) for choice in product(levels, codecs, splits)]


def build(workload: Workload, machine: Machine, variant: Variant) -> Step:
    """The step of a workload.

    Raises:
        ArgumentError: experts or hidden sizes that the mesh does not divide.
        UnsupportedError: a codec or a measured all-reduce that the machine file does not have.
    """
    _require_even(workload)
    forward = Pass(_dense(workload, machine, 1), _moe(workload, machine, variant, 1))
    if workload.mode == "forward":
        return Step(workload.num_layers, forward, contention=machine.contention)
    all_reduce = machine.inter.cost("all_reduce", workload.num_inter)
    if not isinstance(all_reduce, Line):
        raise UnsupportedError("the all-reduce of the slow link must be a line", got=all_reduce)
    share = 1 if workload.layout != "replicated" else workload.num_intra
    return Step(
        workload.num_layers,
        forward,
        Pass(_dense(workload, machine, 2), _moe(workload, machine, variant, 2)),
        gradient_nbytes=workload.dense_gradient_nbytes / share,
        all_reduce=all_reduce,
        contention=machine.contention,
    )


def _require_even(workload: Workload) -> None:
    groups = workload.num_devices if workload.layout == "everywhere" else workload.num_inter
    if workload.num_experts % groups:
        raise ArgumentError(
            f"the {groups} places of experts must divide num_experts", got=workload.num_experts
        )
    if workload.layout != "everywhere" and workload.expert_hidden % workload.num_intra:
        raise ArgumentError(
            f"num_intra={workload.num_intra} must divide expert_hidden", got=workload.expert_hidden
        )
    if workload.layout == "replicated" and workload.num_kv_heads % workload.num_intra:
        raise ArgumentError(
            f"num_intra={workload.num_intra} must divide num_kv_heads", got=workload.num_kv_heads
        )


def _dense(workload: Workload, machine: Machine, times: int) -> tuple[Work, ...]:
    """Attention; with replicated tokens between a gather and a scatter of them."""
    share = workload.num_intra if workload.layout == "replicated" else 1
    cost = roofline.attention(
        machine.kernels,
        width=workload.width,
        num_heads=workload.num_heads / share,
        num_kv_heads=workload.num_kv_heads / share,
        head_dim=workload.head_dim,
        seq_len=workload.seq_len,
        nbytes=workload.element_nbytes,
    )
    compute = [Work("attention", "compute", cost, workload.num_tokens, times)]
    if workload.shared_hidden:
        compute.append(_shared_expert(workload, machine, share, times))
    if share == 1:
        return tuple(compute)
    nbytes = workload.num_tokens * workload.width * workload.element_nbytes
    gather = machine.intra.cost("all_gather", share)
    scatter = machine.intra.cost("reduce_scatter", share)
    return (
        Work("gather tokens", "intra", gather, nbytes),
        *compute,
        Work("scatter tokens", "intra", scatter, nbytes),
    )


def _shared_expert(workload: Workload, machine: Machine, share: int, times: int) -> Work:
    """The expert that sees every token; it waits for no link, so it stands with attention."""
    cost = roofline.experts(
        machine.kernels,
        width=workload.width,
        hidden=workload.shared_hidden / share,
        num_matrices=workload.num_matrices,
        num_experts=1,
        nbytes=workload.element_nbytes,
    )
    return Work("shared expert", "compute", cost, workload.num_tokens, times)


def _moe(workload: Workload, machine: Machine, variant: Variant, times: int) -> tuple[Work, ...]:
    token_nbytes = workload.width * workload.element_nbytes
    copies = workload.num_tokens * workload.num_selected
    if workload.layout == "everywhere":
        there, back = _everywhere(workload, machine, variant, token_nbytes)
        here, hidden_share = copies, 1
    else:
        there, back = _by_node(workload, machine, variant, token_nbytes)
        hidden_share = workload.num_intra
        here = copies * hidden_share if workload.layout == "sharded" else copies
    groups = workload.num_devices if workload.layout == "everywhere" else workload.num_inter
    cost = roofline.experts(
        machine.kernels,
        width=workload.width,
        hidden=workload.expert_hidden / hidden_share,
        num_matrices=workload.num_matrices,
        num_experts=workload.num_experts / groups,
        nbytes=workload.element_nbytes,
    )
    middle = Work("experts", "compute", cost, here, times)
    if variant.compressed:
        there, back = _compressed(there, machine), _compressed(back, machine)
    return (*there, middle, *back)


def _everywhere(
    workload: Workload, machine: Machine, variant: Variant, token_nbytes: float
) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    """Dispatch and combine where experts are spread over all devices."""
    num_inter, num_intra = workload.num_inter, workload.num_intra

    def nbytes(num_groups: int) -> float:
        reached = num_groups_reached(
            num_groups=num_groups,
            num_experts=workload.num_experts,
            num_selected=workload.num_selected,
        )
        return workload.num_tokens * reached * token_nbytes

    if variant.levels < 2:
        copies = workload.num_tokens * workload.num_selected * token_nbytes
        amount = nbytes(workload.num_devices) if variant.levels else copies
        link, cost = flat_exchange(workload, machine)
        return (Work("dispatch", link, cost, amount),), (Work("combine", link, cost, amount),)
    inter = machine.inter.cost("all_to_all", num_inter)
    intra = machine.intra.cost("all_to_all", num_intra)
    far, near = nbytes(num_inter), nbytes(workload.num_devices)
    return (
        (Work("dispatch", "inter", inter, far), Work("spread", "intra", intra, near)),
        (Work("collect", "intra", intra, near), Work("combine", "inter", inter, far)),
    )


def flat_exchange(workload: Workload, machine: Machine) -> tuple[str, Cost]:
    """The link that an exchange between all devices takes, and its cost by a device's bytes."""
    if workload.num_inter == 1:
        return "intra", machine.intra.cost("all_to_all", workload.num_intra)
    return "inter", machine.inter.flat_cost(workload.num_inter, workload.num_intra)


def _by_node(
    workload: Workload, machine: Machine, variant: Variant, token_nbytes: float
) -> tuple[tuple[Work, ...], tuple[Work, ...]]:
    """Dispatch and combine where a node's devices share each of its experts."""
    far = machine.inter.cost("all_to_all", workload.num_inter)
    gather = machine.intra.cost("all_gather", workload.num_intra)
    scatter = machine.intra.cost("reduce_scatter", workload.num_intra)
    tokens = workload.num_tokens * token_nbytes
    copies = tokens * workload.num_selected
    replicated = workload.layout == "replicated"
    if replicated and not variant.split:
        # Every device has all copies; only the parts of the results must be added up.
        return (Work("dispatch", "inter", far, copies),), (
            Work("add up", "intra", scatter, copies),
            Work("share", "intra", gather, copies),
            Work("combine", "inter", far, copies),
        )
    sent = copies / workload.num_intra if replicated else copies
    there = (
        Work("dispatch", "inter", far, sent),
        Work("gather", "intra", gather, sent * workload.num_intra),
    )
    back: tuple[Work, ...] = (
        Work("scatter", "intra", scatter, sent * workload.num_intra),
        Work("combine", "inter", far, sent),
    )
    if replicated:
        shared = tokens if variant.split == "S1" else copies
        back = (*back, Work("share", "intra", gather, shared))
    return there, back


def _compressed(chain: tuple[Work, ...], machine: Machine) -> tuple[Work, ...]:
    """The same chain with a codec around everything on the slow link."""
    if machine.codec is None:
        raise UnsupportedError(f"machine {machine.name} has no codec", fix="add one to its file")
    works: list[Work] = []
    for work in chain:
        if work.resource != "inter":
            works.append(work)
            continue
        works += [
            Work("encode", "compute", roofline.encode(machine.codec), work.amount),
            work._replace(amount=work.amount * machine.codec.ratio),
            Work("decode", "compute", roofline.decode(machine.codec), work.amount),
        ]
    return tuple(works)
