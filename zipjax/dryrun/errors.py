"""What can go wrong on a dry run, beside wrong arguments."""

from typing import Literal

from pallas_kernels import ZipError


class ToolchainError(ZipError):
    """A program or package that compiling for an absent GPU needs is not on this machine."""


class CompileError(ZipError):
    """A program did not compile; this process is unharmed.

    Attributes:
        program: its name.
        kind: "error" for an exception, "crash" where the child process died, "timeout" where it was
            ended.
    """

    program: str = ""
    kind: Literal["error", "crash", "timeout"] = "error"

    @classmethod
    def of(
        cls,
        program: str,
        kind: Literal["error", "crash", "timeout"],
        what: str,
        *,
        got: object = "",
        fix: str = "",
    ) -> "CompileError":
        """The error of one program."""
        error = cls(f"{program}: {what}", got=got, fix=fix)
        error.program, error.kind = program, kind
        return error
