"""`zipjax compress`: a file of tensors becomes a container."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pallas_kernels import ArgumentError
from zipjax.cli.options import TalkOptions
from zipjax.cli.tables import tensor_table
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.cli.targets import OptionalTarget, require_free
from zipjax.files.convert import compress_file
from zipjax.files.estimate import estimate
from zipjax.files.summary import FileSummary
from zipjax.files.tensor_file import CONTAINER_SUFFIX, TensorFile, open_tensors


@dataclass(frozen=True, kw_only=True)
class Compress(TalkOptions):
    """Compress a .safetensors or .npz file, one tensor at a time, and read it back."""

    source: tyro.conf.Positional[Path]
    """The file to compress; it is only read."""
    target: OptionalTarget = None
    """The .zipj file to write; by default beside the source."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write over the target if it exists."""
    no_verify: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Do not read the file back and decompress it before it takes its place."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write nothing: estimate the size from a sample of every tensor."""

    def run(self) -> bool:
        """Compress and say how much it saved."""
        talk, start_s = Talk(self), time.perf_counter()
        target = self.target or self.source.with_suffix(CONTAINER_SUFFIX)
        if self.source.suffix.lower() == CONTAINER_SUFFIX:
            raise ArgumentError("the source must not be compressed yet", got=self.source)
        if target.suffix.lower() != CONTAINER_SUFFIX:
            raise ArgumentError("the target's name must end in .zipj", got=target)
        if not self.dry_run:
            require_free(target, force=self.force)
        tensors = open_tensors(self.source)
        summary = self._work(tensors, target, talk)
        talk.table(tensor_table(summary))
        talk.data({"dry_run": self.dry_run} | summary.to_json())
        talk.summary(self._summary(summary, time.perf_counter() - start_s))
        return True

    def _work(self, tensors: TensorFile, target: Path, talk: Talk) -> FileSummary:
        if self.dry_run:
            with talk.progress("estimating", tensors.nbytes) as advance:
                return estimate(target, tensors, on_tensor=lambda source: advance(source.nbytes))
        num_passes = 1 if self.no_verify else 2
        with talk.progress("compressing", num_passes * tensors.nbytes) as advance:
            return compress_file(tensors, target, verified=not self.no_verify, on_bytes=advance)

    def _summary(self, summary: FileSummary, time_s: float) -> str:
        sizes = (
            f"{len(summary.tensors)} tensors, {nbytes_text(summary.raw_nbytes)} to "
            f"{nbytes_text(summary.file_nbytes)} ({summary.ratio:.3f})"
        )
        if self.dry_run:
            return f"Would compress {sizes}, by a sample of each; wrote nothing, in {time_s:.1f} s"
        verified = "" if self.no_verify else ", verified"
        return f"Compressed {sizes}{verified}, in {time_s:.1f} s"
