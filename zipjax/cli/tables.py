"""The table of a container's tensors."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from pallas_kernels import dtype_name
from zipjax.cli.talk import nbytes_text
from zipjax.files import FileSummary, TensorSummary


def tensor_table(summary: FileSummary, tensors: Sequence[TensorSummary] | None = None) -> Table:
    """A row for each tensor and a last one for the file.

    Args:
        summary: the file.
        tensors: those to show; all by default.
    """
    table = Table(show_footer=True, box=None, pad_edge=False, header_style="bold")
    table.add_column("tensor", Text("file"), overflow="fold")
    table.add_column("dtype")
    table.add_column("shape")
    table.add_column("bits/element", _bits(summary), justify="right")
    table.add_column("bytes", nbytes_text(summary.file_nbytes), justify="right")
    table.add_column("ratio", f"{summary.ratio:.3f}", justify="right")
    table.add_column("codec")
    for tensor in summary.tensors if tensors is None else tensors:
        table.add_row(*_row(tensor))
    return table


def _row(tensor: TensorSummary) -> tuple[Text | str, ...]:
    # `Text` shows names as they are: square brackets in them are no markup.
    name, shape = Text(tensor.name), "x".join(map(str, tensor.shape)) or "()"
    if tensor.same_as is not None:
        return name, dtype_name(tensor.dtype), shape, "", "", "", Text(f"= {tensor.same_as}")
    ratio = f"{tensor.nbytes / tensor.raw_nbytes:.3f}" if tensor.raw_nbytes else ""
    return (
        name,
        dtype_name(tensor.dtype),
        shape,
        f"{tensor.bits_per_element:.2f}",
        nbytes_text(tensor.nbytes),
        ratio,
        tensor.codec,
    )


def _bits(summary: FileSummary) -> str:
    """Bits of the whole file for each element that it stands for."""
    num_elems = sum(tensor.raw_nbytes // tensor.dtype.itemsize for tensor in summary.tensors)
    return f"{8 * summary.file_nbytes / num_elems:.2f}" if num_elems else ""
