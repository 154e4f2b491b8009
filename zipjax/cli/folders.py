"""What commands do with a folder: all its files of weights, one after the other."""

import os
from pathlib import Path

from rich.table import Table
from rich.text import Text

from zipjax.cli.talk import nbytes_text
from zipjax.files.folder_conversion import FolderSummary
from zipjax.files.summary import FileSummary


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def folder_table(files: tuple[FileSummary, ...]) -> Table:
    """A row for each file and a last one for all."""
    raw_nbytes, file_nbytes = total_nbytes(files)
    num_tensors = sum(len(file.tensors) for file in files)
    ratio = f"{file_nbytes / raw_nbytes:.3f}" if raw_nbytes else ""
    table = Table(show_footer=True, box=None, pad_edge=False, header_style="bold")
    table.add_column("file", Text("all"), overflow="fold")
    table.add_column("tensors", str(num_tensors), justify="right")
    table.add_column("uncompressed", nbytes_text(raw_nbytes), justify="right")
    table.add_column("bytes", nbytes_text(file_nbytes), justify="right")
    table.add_column("ratio", ratio, justify="right")
    for file in files:
        table.add_row(
            Text(Path(file.path).name),
            str(len(file.tensors)),
            nbytes_text(file.raw_nbytes),
            nbytes_text(file.file_nbytes),
            f"{file.ratio:.3f}",
        )
    return table


def total_nbytes(files: tuple[FileSummary, ...]) -> tuple[int, int]:
    """Bytes of all tensors uncompressed, and of all files."""
    return sum(file.raw_nbytes for file in files), sum(file.file_nbytes for file in files)


def folder_line(summary: FolderSummary, *, backwards: bool = False) -> str:
    """Sizes and numbers in a line, from uncompressed to compressed or backwards."""
    reused = f", {len(summary.reused)} of them finished before" if summary.reused else ""
    left = f", {len(summary.left_out)} left out" if summary.left_out else ""
    sizes = [nbytes_text(summary.raw_nbytes), nbytes_text(summary.file_nbytes)]
    before, after = reversed(sizes) if backwards else sizes
    return (
        f"{summary.num_tensors} tensors in {len(summary.files)} files{reused}, {before} to {after} "
        f"({summary.ratio:.3f}); {len(summary.copied)} other files copied{left}"
    )
