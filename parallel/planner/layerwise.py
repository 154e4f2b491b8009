"""Layers one after the other: put blocks together and hide the gradients in their idle times."""

from collections.abc import Sequence

from parallel.planner.block import Block, block_of
from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate, PassPlan
from parallel.planner.shop import stage_major
from parallel.planner.step import Pass, Step, Work, stages_of
from parallel.planner.windows import Filling, Window, fill


def dispatched_first(works: Sequence[Work], num_chunks: int, step: Step) -> Block:
    """All dispatches, then all combines: the order of PipeMoE and FSMoE."""
    stages = stages_of(works, num_chunks)
    return block_of(stages, num_chunks, stage_major(len(stages), num_chunks), step.contention)


def whole(works: Sequence[Work], step: Step) -> Block:
    """A chain in one piece."""
    return dispatched_first(works, 1, step)


def in_turn(part: Pass, step: Step, *moe: Block) -> PassPlan:
    """A direction with `moe` for its mixture, and attention in one piece."""
    dense = whole(part.dense, step)
    return PassPlan((*moe, dense) if part is step.backward else (dense, *moe))


def backward_windows(step: Step, plan: PassPlan) -> list[Window]:
    """Idle times of the slow link along the backward pass, the last one after it.

    A layer's gradients exist when its last block has ended.
    """
    windows = []
    for layer in range(step.num_layers):
        for i, block in enumerate(plan.blocks):
            is_new = layer > 0 and i == 0
            windows.append(Window(block.idle_s, step.gradient_nbytes if is_new else 0.0))
    return [*windows, Window(0.0, step.gradient_nbytes)]


def gradients_last(step: Step, plan: PassPlan) -> Filling:
    """Everything in one exchange after the backward pass."""
    total = step.num_layers * step.gradient_nbytes
    nothing = (0.0,) * (len(plan.blocks) * step.num_layers)
    return Filling((*nothing, total), step.all_reduce(total))


def gradients_hidden(step: Step, plan: PassPlan) -> Filling:
    """As many bytes as possible in idle times."""
    return fill(backward_windows(step, plan), step.all_reduce)


def assemble(
    strategy: str,
    step: Step,
    forward: PassPlan,
    backward: PassPlan | None,
    *,
    variant: Variant,
    filling: Filling | None = None,
    one_link: bool = False,
    reason: str = "",
) -> Candidate:
    """A candidate whose layers run one after the other.

    Args:
        strategy: who proposes it.
        step: what is scheduled.
        forward: of each layer.
        backward: of each layer.
        variant: how tokens travel.
        filling: where the gradients go; all after the backward pass when None.
        one_link: whether all communication shares one stream.
        reason: for people.
    """
    seconds = step.num_layers * (forward.seconds + (backward.seconds if backward else 0.0))
    if backward is not None and filling is None:
        filling = gradients_last(step, backward)
    return Candidate(
        strategy=strategy,
        seconds=seconds + (filling.exposed_s if filling else 0.0),
        variant=variant,
        one_link=one_link,
        forward=forward,
        backward=backward,
        gradients=filling.amounts if filling else (),
        reason=reason,
    )
