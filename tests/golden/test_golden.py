"""Golden files decode to what they decoded to when they were written; bad ones are refused."""

import hashlib
import json

import numpy as np
import pytest

import zipjax
from pallas_kernels import decode
from tests.golden.make import BAD, EXPECTED, GOOD
from zipjax.files.checksum import tensor_digest

GOOD_FILES = json.loads((GOOD / EXPECTED).read_text(encoding="utf-8"))
BAD_FILES = json.loads((BAD / EXPECTED).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(GOOD_FILES))
def test_golden_files_decode_for_ever(name):
    path, expected = GOOD / name, GOOD_FILES[name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == expected["sha256"]
    assert zipjax.verify(path).ok
    with zipjax.load(path) as tensors:
        assert set(tensors) == set(expected["tensors"])
        for tensor, want in expected["tensors"].items():
            x = tensors[tensor]
            assert (str(x.dtype), list(x.shape)) == (want["dtype"], want["shape"])
            assert tensor_digest(x) == want["xxh3_128"]
        assert tensors.metadata == {"golden": name.removesuffix(".zipj")}


@pytest.mark.parametrize("name", sorted(GOOD_FILES))
def test_golden_tensors_decode_on_a_device(name):
    with zipjax.load(GOOD / name) as tensors:
        for tensor, want in GOOD_FILES[name]["tensors"].items():
            compressed = tensors.compressed(tensor)
            if compressed.codec != "raw":
                x = np.asarray(decode(compressed, implementation="xla"))
                assert tensor_digest(x) == want["xxh3_128"]


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_bad_files_are_refused_for_the_reason_they_were(name):
    with pytest.raises(zipjax.FormatError) as error:
        zipjax.verify(BAD / name)
    assert error.value.what == BAD_FILES[name]


def test_no_golden_file_goes_untested():
    for folder, files in ((GOOD, GOOD_FILES), (BAD, BAD_FILES)):
        assert {path.name for path in folder.glob("*.zipj")} == set(files)
    assert len(GOOD_FILES) >= 9 and len(BAD_FILES) >= 100
