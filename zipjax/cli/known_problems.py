"""Combinations of versions and settings that are known to go wrong, and how to get out of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from zipjax.cli.environment import Environment

_MALLOC = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
}


@dataclass(frozen=True)
class Finding:
    """Something to know.

    Attributes:
        level: "bad" must be changed, "note" is good to know.
        what: what was found.
        fix: what to do.
    """

    level: Literal["bad", "note"]
    what: str
    fix: str


def find_problems(environment: Environment) -> list[Finding]:
    """What is known to go wrong on a machine like this, worst first."""
    findings = [*_versions(environment), *_settings(environment), *_network(environment)]
    return sorted(findings, key=lambda finding: finding.level)


def _versions(environment: Environment) -> Iterator[Finding]:
    jax, flax = _release(environment, "jax"), _release(environment, "flax")
    jaxlib = _release(environment, "jaxlib")
    if jax and jaxlib and jax[:2] != jaxlib[:2]:
        yield Finding("bad", "jax and jaxlib are of different releases", "pip install -U jax")
    if flax and jax and flax < (0, 12, 9) and jax >= (0, 11, 1):
        yield Finding(
            "bad",
            f"flax {environment.packages['flax']} does not go with jax 0.11.1 and newer",
            "pip install -U flax",
        )
    on_cpu = any(kind.startswith("cpu") for kind in environment.devices)
    if jax and jax < (0, 12) and on_cpu:
        yield Finding(
            "note",
            "jax.lax.psum_scatter on CPU, and the gradient of jax.lax.all_gather with it, can be "
            f"silently wrong for large buffers in jax {environment.packages['jax']} "
            "(jax-ml/jax issue 40830)",
            "use parallel.psum_scatter and parallel.all_gather, which never emit it, or jax 0.12",
        )


def _settings(environment: Environment) -> Iterator[Finding]:
    for kind, count in environment.devices.items():
        if count == 0:
            yield Finding("bad", f"JAX finds no device: {kind}", "set JAX_PLATFORMS=cpu to go on")
    on_linux_cpu = environment.platform.startswith("Linux") and all(
        kind.startswith("cpu") for kind in environment.devices
    )
    missing = [
        f"{name}={value}" for name, value in _MALLOC.items() if name not in environment.variables
    ]
    if on_linux_cpu and missing:
        yield Finding(
            "note",
            "XLA on CPU fetches new pages for the large outputs of every call, which makes most "
            "elementwise work several times slower",
            f"start Python with {' '.join(missing)}",
        )


def _network(environment: Environment) -> Iterator[Finding]:
    address = environment.hostname_address
    if address is None or address.startswith("127."):
        yield Finding(
            "note",
            f"this machine's name resolves to {address or 'nothing'}: processes on other machines "
            "could not reach a CPU rank that binds to it",
            "give the name its address in /etc/hosts before running on several machines",
        )


def _release(environment: Environment, package: str) -> tuple[int, ...]:
    """The leading numbers of a version; empty where the package is not installed."""
    numbers = []
    for part in environment.packages.get(package, "").split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
