"""The options that commands share."""

from dataclasses import dataclass
from typing import Annotated

import tyro


@dataclass(frozen=True, kw_only=True)
class TalkOptions:
    """How much a command says."""

    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print one JSON object on stdout instead of a table."""
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print nothing but errors, and JSON where it is asked for."""
    no_progress: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Show no progress bar; there is none either where stderr is no terminal."""
