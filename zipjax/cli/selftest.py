"""`zipjax selftest`: whether every bit comes back on this machine."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from pallas_kernels import ZipError
from zipjax.cli.checks import CHECKS
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk


@dataclass(frozen=True, kw_only=True)
class Selftest(TalkOptions):
    """Check codecs, files and collectives in under a minute; fails (1) if a bit is lost."""

    def run(self) -> bool:
        """Run every check, whatever the others say."""
        talk, start_s, results = Talk(self), time.perf_counter(), []
        with talk.progress("testing", len(CHECKS)) as advance:
            for name, check in CHECKS.items():
                check_start_s = time.perf_counter()
                failure = _failure(check)
                time_s = time.perf_counter() - check_start_s
                results.append({"check": name, "failure": failure, "time_s": round(time_s, 3)})
                talk.text(f"{'FAILED' if failure else 'ok':<7} {name} ({time_s:.1f} s) {failure}")
                advance(1)
        num_failed = sum(bool(result["failure"]) for result in results)
        talk.data({"ok": not num_failed, "results": results})
        passed = f"Passed {len(CHECKS) - num_failed} of {len(CHECKS)} checks"
        talk.summary(f"{passed}, in {time.perf_counter() - start_s:.1f} s")
        return not num_failed


def _failure(check: Callable[[], None]) -> str:
    """What a check complains of; empty if it does not."""
    try:
        check()
    except (ZipError, OSError, subprocess.TimeoutExpired) as error:
        return " ".join(str(error).split())
    return ""
