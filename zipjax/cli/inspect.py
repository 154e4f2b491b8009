"""`zipjax inspect`: what a container holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pallas_kernels import ArgumentError
from zipjax.cli.options import TalkOptions
from zipjax.cli.tables import tensor_table
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.files import FileSummary, inspect
from zipjax.files.wording import did_you_mean, shown


@dataclass(frozen=True, kw_only=True)
class Inspect(TalkOptions):
    """List the tensors of a .zipj file; reads its header and index only."""

    source: tyro.conf.Positional[Path]
    """The .zipj file."""
    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Tensors to show; all by default."""

    def run(self) -> bool:
        """Print the table."""
        talk, summary = Talk(self), inspect(self.source)
        tensors = [tensor for tensor in summary.tensors if tensor.name in self._wanted(summary)]
        talk.table(tensor_table(summary, tensors))
        talk.data(summary.to_json() | {"tensors": [tensor.to_json() for tensor in tensors]})
        for key, text in summary.metadata.items():
            talk.summary(f"metadata {shown(key)}: {shown(text)}")
        talk.summary(
            f"{len(summary.tensors)} tensors, {nbytes_text(summary.raw_nbytes)} in "
            f"{nbytes_text(summary.file_nbytes)} ({summary.ratio:.3f})"
        )
        return True

    def _wanted(self, summary: FileSummary) -> set[str]:
        known = [tensor.name for tensor in summary.tensors]
        for name in self.names:
            if name not in known:
                raise ArgumentError(
                    f"the name must be one of the file's {len(known)} tensors",
                    got=shown(name),
                    fix=did_you_mean(name, known),
                )
        return set(self.names or known)
