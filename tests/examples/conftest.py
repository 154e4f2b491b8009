"""Runs of these tests share one model, and so their programs."""

import pytest

from tests.support.compile_cache import compile_cache


@pytest.fixture(scope="package", autouse=True)
def compiled_once(tmp_path_factory):
    with compile_cache(tmp_path_factory.mktemp("programs")):
        yield
