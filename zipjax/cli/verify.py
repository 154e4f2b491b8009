"""`zipjax verify`: whether a container is whole, and what it was made from."""

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.files import inspect, verify


@dataclass(frozen=True, kw_only=True)
class Verify(TalkOptions):
    """Check every checksum, decompress every tensor and compare it with its digest.

    A damaged file is an error (2); a whole file that is not the one of --against fails (1).
    """

    source: tyro.conf.Positional[Path]
    """The .zipj file."""
    against: Path | None = None
    """A .safetensors, .npz or .zipj file: compare every tensor with it, byte by byte."""

    def run(self) -> bool:
        """Verify and say so."""
        talk, start_s = Talk(self), time.perf_counter()
        with talk.progress("verifying", inspect(self.source).raw_nbytes) as advance:
            result = verify(
                self.source, against=self.against, on_tensor=lambda entry: advance(entry.raw_nbytes)
            )
        talk.data({"ok": result.ok, "differences": result.differences} | result.summary.to_json())
        for difference in result.differences:
            talk.summary(difference)
        sizes = f"{len(result.summary.tensors)} tensors, {nbytes_text(result.summary.raw_nbytes)}"
        equal = "" if self.against is None else f", {self._verdict(len(result.differences))}"
        talk.summary(f"Verified {sizes}{equal}, in {time.perf_counter() - start_s:.1f} s")
        return result.ok

    def _verdict(self, num_different: int) -> str:
        if num_different:
            return f"{num_different} not as in {self.against}"
        return f"equal to {self.against}"
