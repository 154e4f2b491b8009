"""What a run keeps, says and does besides computing."""

from dataclasses import dataclass
from pathlib import Path

from pallas_kernels import ArgumentError


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """None of these changes a bit of the result.

    Attributes:
        out: folder for metrics, loss curve, config and checkpoints; None keeps nothing.
        resume: go on from the newest checkpoint in `out`.
        save_every: steps between two checkpoints; there is always one at the end.
        stop_after: save and stop once so many steps are done, to be resumed later.
        quiet: say nothing but errors.
    """

    out: Path | None = Path("runs/train_moe")
    resume: bool = False
    save_every: int = 100
    stop_after: int | None = None
    quiet: bool = False

    def __post_init__(self):
        if self.save_every < 1:
            raise ArgumentError("save_every must be at least 1", got=self.save_every)
        if self.stop_after is not None and self.stop_after < 1:
            raise ArgumentError("stop_after must be at least 1", got=self.stop_after)
        if self.resume and self.out is None:
            raise ArgumentError("to resume a run there must be a folder", fix="pass --out")
