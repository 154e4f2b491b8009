"""Choose the command, run it, and turn what it raises into one line and an exit code."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import tyro

from pallas_kernels import ZipError
from zipjax.cli.bench import Bench
from zipjax.cli.compress import Compress
from zipjax.cli.decompress import Decompress
from zipjax.cli.doctor import Doctor
from zipjax.cli.estimate import Estimate
from zipjax.cli.generate import Generate
from zipjax.cli.inspect import Inspect
from zipjax.cli.plan import PlanCommand
from zipjax.cli.selftest import Selftest
from zipjax.cli.verify import Verify
from zipjax.files.wording import did_you_mean, shown

OK, CHECK_FAILED, ERROR, INTERRUPTED = 0, 1, 2, 130

_COMMANDS: dict[str, Callable[..., Any]] = {
    "compress": Compress,
    "decompress": Decompress,
    "inspect": Inspect,
    "verify": Verify,
    "estimate": Estimate,
    "generate": Generate,
    "plan": PlanCommand,
    "doctor": Doctor,
    "selftest": Selftest,
    "bench": Bench,
}

_DESCRIPTION = """Lossless compression of model weights: every bit comes back.

Exit codes: 0 done, 1 a check failed, 2 an error. Data goes to stdout, talk to stderr."""


class _Command(Protocol):
    def run(self) -> bool:
        """Do it; False if a check failed."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line `argv`, by default that of the process, and give the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _require_known_command(arguments)
        command = _parse(arguments or ["--help"])
        passed = command.run()
        sys.stdout.flush()
        return OK if passed else CHECK_FAILED
    except SystemExit as error:  # From the parser: it has said what is wrong, or printed help.
        return error.code if isinstance(error.code, int) else ERROR
    except KeyboardInterrupt:
        return _say("interrupted; nothing was left behind", INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout has gone, as `head` does: no error, and nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except ZipError as error:
        return _say(str(error), ERROR)
    except OSError as error:
        return _say(f"{error.filename or 'the system'}: {error.strerror or error}", ERROR)
    except MemoryError:
        return _say("not enough memory for the largest tensor.", ERROR)


def _parse(arguments: Sequence[str]) -> _Command:
    command = tyro.extras.subcommand_cli_from_dict(
        _COMMANDS, prog="zipjax", description=_DESCRIPTION, args=arguments
    )
    return cast(_Command, command)


def _require_known_command(arguments: Sequence[str]) -> None:
    if arguments and not arguments[0].startswith("-") and arguments[0] not in _COMMANDS:
        raise ZipError(
            f"the command must be one of {', '.join(_COMMANDS)}",
            got=shown(arguments[0]),
            fix=did_you_mean(arguments[0], _COMMANDS),
        )


def _say(message: str, code: int) -> int:
    print(f"zipjax: {' '.join(message.split())}", file=sys.stderr)
    return code
