"""Where a command may write."""

from pathlib import Path
from typing import Annotated

import tyro

from pallas_kernels import ArgumentError

OptionalTarget = Annotated[Path | None, tyro.conf.arg(metavar="[TARGET]"), tyro.conf.Positional]
"""A path that the command line may leave out."""


def require_free(target: Path, *, force: bool) -> None:
    """Refuse to write over a file unless told to, and to write over a folder at all."""
    if target.is_dir():
        raise ArgumentError("the target must be a file", got=f"the folder {target}")
    if target.exists() and not force:
        raise ArgumentError(f"{target} exists", fix="write elsewhere, or pass --force")
