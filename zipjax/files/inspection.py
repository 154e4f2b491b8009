"""Look into a container without reading its tensors."""

import os

from zipjax.files.container import Container
from zipjax.files.summary import FileSummary, summarize


def inspect(path: str | os.PathLike[str]) -> FileSummary:
    """What a container file holds; reads its header and index only.

    Raises:
        FormatError: the file is foreign, truncated, of another version, or its index is damaged.
        OSError: the file cannot be read.
    """
    with Container.open(path) as container:
        return summarize(path, container.index, file_nbytes=container.header.file_nbytes)
