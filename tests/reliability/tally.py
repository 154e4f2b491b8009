"""How attacks end: refused, harmless, or wrong."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pallas_kernels import FormatError, UnsupportedError
from zipjax.array import decompress
from zipjax.files.container import Container
from zipjax.files.source import BytesSource
from zipjax.files.verification import read_original

REFUSALS = (FormatError, UnsupportedError)

Contents = dict[str, tuple[str, tuple[int, ...], bytes]]


@dataclass
class Tally:
    """The outcome of one kind of attack.

    Attributes:
        row: the row of the list of kinds in docs/reliability.md.
        kind: what was attacked, and how.
        num_cases: attacks made.
        num_refused: attacks that ended in a typed error.
        num_harmless: attacks after which everything was read exactly.
        wrong: what the others did; must be empty.
        time_s: seconds it took.
    """

    row: int
    kind: str
    num_cases: int = 0
    num_refused: int = 0
    num_harmless: int = 0
    wrong: list[str] = field(default_factory=list)
    reasons: Counter = field(default_factory=Counter)
    time_s: float = 0.0
    _start_s: float = field(default_factory=time.perf_counter)

    def attempt(self, attack: Callable[[], bool], what: object) -> None:
        """Count one attack.

        Args:
            attack: reads what was tampered with; True if all of it came back exactly.
            what: says which attack, should it go wrong.
        """
        self.num_cases += 1
        try:
            if attack():
                self.num_harmless += 1
            else:
                self.wrong.append(f"{what}: read wrong data")
        except REFUSALS as error:
            self.num_refused += 1
            self.reasons[error.what[:40]] += 1
        except Exception as error:
            self.wrong.append(f"{what}: {type(error).__name__}: {error}")

    def add(self, other: "Tally") -> None:
        """Count another tally's cases as this one's."""
        self.num_cases += other.num_cases
        self.num_refused += other.num_refused
        self.num_harmless += other.num_harmless
        self.wrong += other.wrong

    def done(self) -> "Tally":
        """Stop the clock."""
        self.time_s = time.perf_counter() - self._start_s
        return self


def read_contents(data: bytes, *, digests: bool = False) -> Contents:
    """Everything in a container: name -> dtype, shape, bytes.

    Args:
        data: the container.
        digests: compare every tensor with its digest, not only every chunk with its checksum.
    """
    with Container(BytesSource(data), verify="always") as container:
        contents: Contents = {}
        for name in container.index.stored_names:
            x = read_original(container, name) if digests else read_array(container, name)
            contents[name] = (str(x.dtype), x.shape, x.tobytes())
        for key, text in container.index.metadata.items():
            contents[f"metadata {key}"] = ("text", (), text.encode())
        return contents


def read_array(container: Container, name: str) -> np.ndarray:
    """A tensor, its chunks compared with their checksums."""
    return np.asarray(decompress(container.compressed(name)))
