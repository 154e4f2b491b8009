"""`zipjax inspect`: what a container, or a folder of them, holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pallas_kernels import ArgumentError
from zipjax.cli.folders import folder_table, total_nbytes
from zipjax.cli.options import TalkOptions
from zipjax.cli.tables import tensor_table
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.files import FileSummary, inspect
from zipjax.files.folder_conversion import compressed_files
from zipjax.files.wording import did_you_mean, shown


@dataclass(frozen=True, kw_only=True)
class Inspect(TalkOptions):
    """List the tensors of a .zipj file, or the files of a folder; reads no tensor."""

    source: tyro.conf.Positional[Path]
    """The .zipj file, or a folder that `zipjax compress` wrote."""
    names: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Tensors of a file to show; all by default."""

    def run(self) -> bool:
        """Print the table."""
        if self.source.is_dir():
            self._folder(Talk(self))
        else:
            self._file(Talk(self))
        return True

    def _folder(self, talk: Talk) -> None:
        if self.names:
            raise ArgumentError(
                "names are of the tensors of one file", got=f"the folder {self.source}"
            )
        files = tuple(inspect(path) for path in compressed_files(self.source))
        talk.table(folder_table(files))
        talk.data({"files": [file.to_json() for file in files]})
        raw_nbytes, nbytes = total_nbytes(files)
        talk.summary(
            f"{len(files)} files, {nbytes_text(raw_nbytes)} in {nbytes_text(nbytes)} "
            f"({nbytes / max(raw_nbytes, 1):.3f})"
        )

    def _file(self, talk: Talk) -> None:
        summary = inspect(self.source)
        tensors = [tensor for tensor in summary.tensors if tensor.name in self._wanted(summary)]
        talk.table(tensor_table(summary, tensors))
        talk.data(summary.to_json() | {"tensors": [tensor.to_json() for tensor in tensors]})
        for key, text in summary.metadata.items():
            talk.summary(f"metadata {shown(key)}: {shown(text)}")
        talk.summary(
            f"{len(summary.tensors)} tensors, {nbytes_text(summary.raw_nbytes)} in "
            f"{nbytes_text(summary.file_nbytes)} ({summary.ratio:.3f})"
        )

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
