"""Compile equal programs once: runs of one model differ in everything but the program."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache


@contextlib.contextmanager
def compile_cache(folder: Path) -> Iterator[None]:
    """Keep compiled programs in `folder`; afterwards nothing is kept, as before."""
    settings = {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
