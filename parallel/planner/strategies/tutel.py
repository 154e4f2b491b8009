"""Tutel and Lina, as other papers compare with them: a few fixed degrees, fixed pieces."""

from dataclasses import replace

from parallel.planner.build import Variant
from parallel.planner.candidate import Candidate
from parallel.planner.layerwise import assemble, backward_windows
from parallel.planner.problem import Problem
from parallel.planner.step import on_one_link
from parallel.planner.strategies import pipemoe
from parallel.planner.windows import greedy_fill

# Tutel tries these and keeps the fastest.
TUTEL_DEGREES = (1, 2, 4, 8)
# The size of Lina's pieces of gradients as FSMoE's authors set it.
LINA_PIECE_NBYTES = 30e6


def propose(problem: Problem) -> Candidate:
    """Tutel: one degree out of four for both directions."""
    step = on_one_link(problem.step(Variant()))
    degrees = [degree for degree in TUTEL_DEGREES if degree in problem.degrees]
    candidates = [pipemoe.of_step("tutel", step, [degree]) for degree in degrees]
    best = min(candidates, key=lambda candidate: candidate.seconds)
    assert best.forward is not None, "layers do not overlap here"
    return replace(best, reason=f"r={best.forward.mixture.num_chunks} of {TUTEL_DEGREES}")


def propose_lina(problem: Problem) -> Candidate | None:
    """Lina: PipeMoE's degrees, gradients in pieces where they fit; nothing to add when serving."""
    step = on_one_link(problem.step(Variant()))
    if step.backward is None:
        return None
    base = pipemoe.of_step("lina", step, problem.degrees)
    assert base.forward is not None and base.backward is not None, "layers do not overlap here"
    windows = backward_windows(step, base.backward)
    candidate = assemble(
        "lina",
        step,
        base.forward,
        base.backward,
        filling=greedy_fill(windows, step.all_reduce, LINA_PIECE_NBYTES),
        variant=Variant(),
        one_link=True,
        reason=f"{base.reason}, gradients in pieces of {LINA_PIECE_NBYTES / 1e6:.0f} MB",
    )
    return replace(candidate, gradient_piece_nbytes=LINA_PIECE_NBYTES)
