"""Choose the devices of a run, before anything touches one."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import jax

from pallas_kernels import ArgumentError

NUM_CPU_DEVICES = 8


def set_up_devices(
    *,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    num_cpu_devices: int | None = None,
) -> None:
    """Join the other processes, if any, and have virtual CPU devices where there is no GPU.

    What is not passed is read from JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID.

    Args:
        coordinator: host:port of the first process; None for a single process.
        num_processes: how many there are.
        process_id: which of them this is, from 0.
        num_cpu_devices: virtual devices of this process where JAX finds no GPU; by default 8 over
            all processes.

    Raises:
        ArgumentError: when only a part of the three is known, or devices were touched already.
    """
    coordinator = coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    num_processes = _number(num_processes, "JAX_NUM_PROCESSES")
    process_id = _number(process_id, "JAX_PROCESS_ID")
    known = [value is not None for value in (coordinator, num_processes, process_id)]
    if any(known) and not all(known):
        raise ArgumentError(
            "several processes need a coordinator, their number, and the number of this one",
            got=f"{coordinator=}, {num_processes=}, {process_id=}",
            fix="pass --coordinator HOST:PORT --num-processes N --process-id I",
        )
    if num_cpu_devices is None:
        num_cpu_devices = max(1, NUM_CPU_DEVICES // (num_processes or 1))
    try:
        jax.config.update("jax_num_cpu_devices", num_cpu_devices)
        if coordinator is not None:
            jax.distributed.initialize(coordinator, num_processes, process_id)
    except RuntimeError as error:
        raise ArgumentError("devices must be set up before JAX uses any", got=str(error)) from error


@contextlib.contextmanager
def stdout_for_data() -> Iterator[TextIO]:
    """Keep stdout for what we print: with several processes, gloo prints its greetings there too.

    Inside, what others write to file descriptor 1 goes to stderr.

    Yields:
        Where to print.
    """
    if jax.process_count() == 1:
        yield sys.stdout
        return
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(descriptor), "w") as out:
            yield out
    finally:
        os.dup2(descriptor, 1)
        os.close(descriptor)


def _number(value: int | None, variable: str) -> int | None:
    if value is not None or variable not in os.environ:
        return value
    text = os.environ[variable]
    if not text.isdecimal():
        raise ArgumentError(f"{variable} must be a whole number", got=repr(text))
    return int(text)
