"""`zipjax compress`: a file of tensors, or a folder with a model, becomes containers."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pallas_kernels import ArgumentError
from zipjax.cli.folders import folder_line, folder_table, num_cores
from zipjax.cli.options import TalkOptions
from zipjax.cli.tables import tensor_table
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.cli.targets import OptionalTarget, require_free
from zipjax.files.convert import compress_file
from zipjax.files.estimate import estimate
from zipjax.files.folder_conversion import FolderSummary, compress_folder
from zipjax.files.folder_plan import WEIGHTS_SUFFIX, FolderPlan, plan_folder
from zipjax.files.summary import FileSummary
from zipjax.files.tensor_file import CONTAINER_SUFFIX, TensorFile, open_tensors


@dataclass(frozen=True, kw_only=True)
class Compress(TalkOptions):
    """Compress a .safetensors or .npz file, or a model's folder, and read it back.

    Of a folder, all .safetensors files are compressed and what is not weights is copied, so that
    `zipjax.load_model` opens it. Interrupted, the same command goes on where it was.
    """

    source: tyro.conf.Positional[Path]
    """The file or folder to compress; it is only read."""
    target: OptionalTarget = None
    """The .zipj file or the folder to write; by default beside the source."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write over files in the target if they exist."""
    no_verify: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Do not read a file back and decompress it before it takes its place."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write nothing: estimate the size from a sample of every tensor."""
    threads: int = 0
    """How many tensors to compress at once; 0: as many as there are cores."""

    def run(self) -> bool:
        """Compress and say how much it saved."""
        talk, start_s = Talk(self), time.perf_counter()
        if self.threads < 0:
            raise ArgumentError("--threads must be at least 0", got=self.threads)
        line = self._folder(talk) if self.source.is_dir() else self._file(talk)
        done = "Would compress" if self.dry_run else "Compressed"
        if self.dry_run:
            line += ", by a sample of each; wrote nothing"
        elif not self.no_verify:
            line += ", verified"
        talk.summary(f"{done} {line}, in {time.perf_counter() - start_s:.1f} s")
        return True

    def _file(self, talk: Talk) -> str:
        target = self.target or self.source.with_suffix(CONTAINER_SUFFIX)
        if self.source.suffix.lower() == CONTAINER_SUFFIX:
            raise ArgumentError("the source must not be compressed yet", got=self.source)
        if target.suffix.lower() != CONTAINER_SUFFIX:
            raise ArgumentError("the target's name must end in .zipj", got=target)
        if not self.dry_run:
            require_free(target, force=self.force)
        summary = self._compress_file(open_tensors(self.source), target, talk)
        talk.table(tensor_table(summary))
        talk.data({"dry_run": self.dry_run} | summary.to_json())
        return (
            f"{len(summary.tensors)} tensors, {nbytes_text(summary.raw_nbytes)} to "
            f"{nbytes_text(summary.file_nbytes)} ({summary.ratio:.3f})"
        )

    def _folder(self, talk: Talk) -> str:
        plan = plan_folder(self.source, suffix=WEIGHTS_SUFFIX)
        target = self.target or self.source.resolve().with_name(
            f"{self.source.resolve().name}-zipj"
        )
        summary = self._estimate_folder(plan, talk) if self.dry_run else None
        summary = summary or self._compress_folder(plan, target, talk)
        talk.table(folder_table(summary.files))
        talk.data({"dry_run": self.dry_run, "target": str(target)} | summary.to_json())
        return folder_line(summary)

    def _compress_file(self, tensors: TensorFile, target: Path, talk: Talk) -> FileSummary:
        if self.dry_run:
            with talk.progress("estimating", tensors.nbytes) as advance:
                return estimate(target, tensors, on_tensor=lambda source: advance(source.nbytes))
        with talk.progress("compressing", self._num_passes() * tensors.nbytes) as advance:
            return compress_file(
                tensors,
                target,
                verified=not self.no_verify,
                num_threads=self.threads or num_cores(),
                on_bytes=advance,
            )

    def _compress_folder(self, plan: FolderPlan, target: Path, talk: Talk) -> FolderSummary:
        with talk.progress("compressing", self._num_passes() * _nbytes(plan)) as advance:
            return compress_folder(
                plan,
                target,
                verified=not self.no_verify,
                force=self.force,
                num_threads=self.threads or num_cores(),
                on_bytes=advance,
            )

    def _estimate_folder(self, plan: FolderPlan, talk: Talk) -> FolderSummary:
        with talk.progress("estimating", _nbytes(plan)) as advance:
            files = tuple(
                estimate(
                    plan.target_of(path),
                    open_tensors(plan.source / path),
                    on_tensor=lambda source: advance(source.nbytes),
                )
                for path in plan.weights
            )
        copied, left_out = map(str, plan.copied), map(str, plan.left_out)
        return FolderSummary(files=files, copied=tuple(copied), left_out=tuple(left_out))

    def _num_passes(self) -> int:
        return 1 if self.no_verify else 2


def _nbytes(plan: FolderPlan) -> int:
    return sum(open_tensors(plan.source / path).nbytes for path in plan.weights)
