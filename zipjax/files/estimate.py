"""Say how large a container would become, from a sample of every tensor."""

import os
from collections.abc import Callable

import numpy as np

from zipjax.array import compress, decompress
from zipjax.files.spec import HEADER_NBYTES, padded_nbytes
from zipjax.files.summary import FileSummary, TensorSummary
from zipjax.files.tensor_file import TensorFile
from zipjax.files.tensor_source import TensorSource

SAMPLE_ELEMS = 1 << 16
_NUM_RUNS = 16
_INDEX_ENTRY_NBYTES = 900  # An entry with its eight streams, name aside.


def estimate(
    path: str | os.PathLike[str],
    tensors: TensorFile,
    *,
    on_tensor: Callable[[TensorSource], None] | None = None,
) -> FileSummary:
    """What `compress_file` would write to `path`, within a few per cent; writes nothing.

    Equal tensors are counted each time, and digests are left empty.
    """
    summaries = []
    for source in tensors.sources:
        summaries.append(_estimate_tensor(source))
        if on_tensor is not None:
            on_tensor(source)
    index_nbytes = sum(_INDEX_ENTRY_NBYTES + len(source.name) for source in tensors.sources)
    chunks_nbytes = sum(padded_nbytes(summary.nbytes) for summary in summaries)
    return FileSummary(
        path=os.fspath(path),
        file_nbytes=HEADER_NBYTES + chunks_nbytes + index_nbytes,
        raw_nbytes=tensors.nbytes,
        tensors=tuple(summaries),
        metadata=dict(tensors.metadata),
    )


def _estimate_tensor(source: TensorSource) -> TensorSummary:
    sample = compress(_sample(np.asarray(decompress(source.read()))))
    num_elems = source.nbytes // source.dtype.itemsize
    return TensorSummary(
        name=source.name,
        dtype=source.dtype,
        shape=source.shape,
        codec=sample.codec,
        layout=sample.layout,
        raw_nbytes=source.nbytes,
        nbytes=round(sample.bits_per_element * num_elems / 8),
        bits_per_element=sample.bits_per_element,
        digest="",
    )


def _sample(x: np.ndarray) -> np.ndarray:
    """Runs of neighbours from all over `x`, always as many, so that one program serves them all."""
    flat = np.ascontiguousarray(x).reshape(-1)
    if flat.size <= SAMPLE_ELEMS:
        return flat
    run_elems = SAMPLE_ELEMS // _NUM_RUNS
    starts = np.linspace(0, flat.size - run_elems, _NUM_RUNS, dtype=np.int64)
    return np.concatenate([flat[start : start + run_elems] for start in starts])
