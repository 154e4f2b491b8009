"""`zipjax doctor`: what is installed, what is known to go wrong, a block for bug reports."""

from dataclasses import asdict, dataclass

from zipjax.cli.environment import Environment, read_environment
from zipjax.cli.known_problems import Finding, find_problems
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk, nbytes_text


@dataclass(frozen=True, kw_only=True)
class Doctor(TalkOptions):
    """Look for known problems; fails (1) if something must be changed."""

    def run(self) -> bool:
        """Print the block and the findings."""
        talk, environment = Talk(self), read_environment()
        findings = find_problems(environment)
        is_well = all(finding.level != "bad" for finding in findings)
        talk.data(
            {"ok": is_well}
            | environment.to_json()
            | {"findings": [asdict(finding) for finding in findings]}
        )
        talk.text(environment_block(environment))
        for finding in findings:
            talk.summary(_finding_text(finding))
        talk.summary("No known problem." if not findings else "Paste the block in a bug report.")
        return is_well


def environment_block(environment: Environment) -> str:
    """The facts, a line each, to be pasted in a bug report."""
    memory = environment.memory_nbytes
    lines = {
        "python": environment.python,
        "platform": environment.platform,
        "cores": str(environment.num_cores),
        "memory": nbytes_text(memory) if memory else "unknown",
        "devices": ", ".join(f"{n} x {kind}" for kind, n in environment.devices.items()),
        **environment.packages,
        **environment.variables,
    }
    width = max(map(len, lines))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines.items())


def _finding_text(finding: Finding) -> str:
    return f"{finding.level}: {finding.what}\n      -> {finding.fix}"
