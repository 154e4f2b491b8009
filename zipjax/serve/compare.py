"""Whether two runs of a text had the same logits, without keeping the logits."""

from dataclasses import dataclass, field

import numpy as np

from zipjax.files.checksum import tensor_digest
from zipjax.serve.generate import GenerationStep


@dataclass
class LogitsRecord:
    """Digests of the logits of a run; its `add` is an `on_step` of `generate`.

    Attributes:
        digests: for each step, 32 hexadecimal digits of the bits of what counted: the logits of
            the sequences that still went on.
        num_logits: how many numbers these were.
    """

    digests: list[str] = field(default_factory=list)
    num_logits: int = 0

    def add(self, step: GenerationStep) -> None:
        """Take a step to the record."""
        logits = np.asarray(step.logits)[step.is_new]
        self.digests.append(tensor_digest(logits))
        self.num_logits += logits.size


@dataclass(frozen=True)
class LogitsComparison:
    """What `compare_logits` found.

    Attributes:
        num_steps: steps compared, that of the prompts included.
        num_logits: numbers compared.
        first_difference: the first step, from 0, whose logits differ in a bit; None: no one.
    """

    num_steps: int
    num_logits: int
    first_difference: int | None

    @property
    def identical(self) -> bool:
        """Whether every bit of every logit was the same."""
        return self.first_difference is None


def compare_logits(left: LogitsRecord, right: LogitsRecord) -> LogitsComparison:
    """Compare two runs on bits.

    Args:
        left: of one run.
        right: of another from the same prompts.
    """
    num_steps = max(len(left.digests), len(right.digests))
    pairs = zip(left.digests, right.digests, strict=False)
    differing = [idx for idx, (a, b) in enumerate(pairs) if a != b]
    if not differing and len(left.digests) != len(right.digests):
        differing = [min(len(left.digests), len(right.digests))]
    first = differing[0] if differing else None
    return LogitsComparison(num_steps, max(left.num_logits, right.num_logits), first)
