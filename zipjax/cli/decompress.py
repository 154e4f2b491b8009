"""`zipjax decompress`: a container becomes the file that it was."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.cli.targets import OptionalTarget, require_free
from zipjax.files import inspect
from zipjax.files.convert import decompress_file


@dataclass(frozen=True, kw_only=True)
class Decompress(TalkOptions):
    """Decompress a .zipj file to .safetensors or .npz, every tensor compared with its digest."""

    source: tyro.conf.Positional[Path]
    """The .zipj file; it is only read."""
    target: OptionalTarget = None
    """The file to write; its suffix says which kind. By default .safetensors."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write over the target if it exists."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write nothing: say what would be written."""

    def run(self) -> bool:
        """Decompress and say how much it became."""
        talk, start_s = Talk(self), time.perf_counter()
        target = self.target or self.source.with_suffix(".safetensors")
        summary = inspect(self.source)
        if not self.dry_run:
            require_free(target, force=self.force)
            with talk.progress("decompressing", summary.raw_nbytes) as advance:
                decompress_file(self.source, target, on_bytes=advance)
        talk.data({"dry_run": self.dry_run, "target": str(target)} | summary.to_json())
        done = "Would decompress" if self.dry_run else "Decompressed"
        talk.summary(
            f"{done} {len(summary.tensors)} tensors, {nbytes_text(summary.file_nbytes)} to "
            f"{nbytes_text(summary.raw_nbytes)}, in {time.perf_counter() - start_s:.1f} s"
        )
        return True
