"""`zipjax decompress`: a container, or a folder of them, becomes what it was."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zipjax.cli.folders import folder_line
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.cli.targets import OptionalTarget, require_free
from zipjax.files import inspect
from zipjax.files.convert import decompress_file
from zipjax.files.folder_conversion import FolderSummary, decompress_folder
from zipjax.files.folder_plan import FolderPlan, plan_folder
from zipjax.files.tensor_file import CONTAINER_SUFFIX


@dataclass(frozen=True, kw_only=True)
class Decompress(TalkOptions):
    """Decompress a .zipj file to .safetensors or .npz, or a folder to what it was made from.

    Every tensor is compared with its digest.
    """

    source: tyro.conf.Positional[Path]
    """The .zipj file or the folder; it is only read."""
    target: OptionalTarget = None
    """What to write. Of a file, the suffix says which kind, by default .safetensors."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write over files in the target if they exist."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write nothing: say what would be written."""

    def run(self) -> bool:
        """Decompress and say how much it became."""
        talk, start_s = Talk(self), time.perf_counter()
        line = self._folder(talk) if self.source.is_dir() else self._file(talk)
        done = "Would decompress" if self.dry_run else "Decompressed"
        talk.summary(f"{done} {line}, in {time.perf_counter() - start_s:.1f} s")
        return True

    def _file(self, talk: Talk) -> str:
        target = self.target or self.source.with_suffix(".safetensors")
        summary = inspect(self.source)
        if not self.dry_run:
            require_free(target, force=self.force)
            with talk.progress("decompressing", summary.raw_nbytes) as advance:
                decompress_file(self.source, target, on_bytes=advance)
        talk.data({"dry_run": self.dry_run, "target": str(target)} | summary.to_json())
        return (
            f"{len(summary.tensors)} tensors, {nbytes_text(summary.file_nbytes)} to "
            f"{nbytes_text(summary.raw_nbytes)}"
        )

    def _folder(self, talk: Talk) -> str:
        plan = plan_folder(self.source, suffix=CONTAINER_SUFFIX)
        folder = self.source.resolve()
        target = self.target or folder.with_name(f"{folder.name}-safetensors")
        summary = _inspected(plan)
        if not self.dry_run:
            with talk.progress("decompressing", summary.raw_nbytes) as advance:
                decompress_folder(plan, target, force=self.force, on_bytes=advance)
        talk.data({"dry_run": self.dry_run, "target": str(target)} | summary.to_json())
        return folder_line(summary, backwards=True)


def _inspected(plan: FolderPlan) -> FolderSummary:
    copied, left_out = map(str, plan.copied), map(str, plan.left_out)
    files = tuple(inspect(plan.source / path) for path in plan.weights)
    return FolderSummary(files=files, copied=tuple(copied), left_out=tuple(left_out))
