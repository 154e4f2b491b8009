"""The checks of `zipjax selftest`: each returns without a word or raises what is wrong."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from pallas_kernels import ChecksumError, ZipError, dtype_from_name
from zipjax.array import compress, decompress
from zipjax.files import load, save, verify
from zipjax.files.checksum import tensor_bytes

_DTYPES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 "
    "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()
_SHAPES = ((), (0, 3), (1,), (3, 5, 7), (4097,))
_COLLECTIVE_TIME_S_MAX = 50


def check_16_bit_patterns() -> None:
    """Every pattern of 16 bits survives, as bfloat16 and as float16."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    for dtype in (np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)):
        _require_same_bits(patterns.view(dtype), f"all patterns of {dtype}")


def check_8_bit_patterns() -> None:
    """Every pattern of 8 bits survives, amid values that compress."""
    patterns = np.arange(1 << 8, dtype=np.uint8)
    for name in ("float8_e4m3fn", "float8_e5m2"):
        ones = np.ones(1 << 16, np.float32).astype(dtype_from_name(name))
        ones[: patterns.size] = patterns.view(ones.dtype)
        _require_same_bits(ones, f"all patterns of {name}")


def check_weights() -> None:
    """Values like those of weights shrink, and come back, on the host and on the device."""
    rng = np.random.default_rng(0)
    x = rng.normal(0, 0.02, 1 << 16).astype(np.float32)
    for name in ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"):
        cast = x.astype(dtype_from_name(name))
        _require_same_bits(cast, f"weights of {name}")
        tensor = compress(jnp.asarray(cast))
        if tensor.codec == "raw":
            raise ZipError(f"weights of {name} must compress", got=tensor)
        if np.asarray(decompress(tensor)).tobytes() != cast.tobytes():
            raise ZipError(f"weights of {name} must survive on the device")


def check_dtypes() -> None:
    """Random bytes of every dtype survive in every kind of shape."""
    rng = np.random.default_rng(0)
    for name in _DTYPES:
        dtype = dtype_from_name(name)
        for shape in _SHAPES:
            nbytes = int(np.prod(shape)) * dtype.itemsize
            data = rng.integers(0, 2 if name == "bool" else 256, nbytes, np.uint8)
            _require_same_bits(data.view(dtype).reshape(shape), f"{name}{list(shape)}")


def check_container() -> None:
    """A file gives back what was saved, and a damaged one is refused."""
    rng = np.random.default_rng(0)
    tree: dict[str, np.ndarray] = {
        "w": rng.normal(size=(64, 64)).astype(np.float32),
        "b": np.arange(5),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "selftest.zipj"
        save(path, tree, metadata={"made by": "zipjax selftest"})
        verify(path)
        with load(path) as tensors:
            for name, x in tree.items():
                if tensors[name].tobytes() != x.tobytes():
                    raise ZipError(f"tensor {name!r} must come back from the file")
        data = bytearray(path.read_bytes())
        data[64] ^= 1
        path.write_bytes(data)
        try:
            verify(path)
        except ChecksumError:
            return
        raise ZipError("a damaged file must be refused")


def check_collectives() -> None:
    """Collectives over four virtual devices, compressed and raw, give exactly the same bits."""
    done = subprocess.run(
        [sys.executable, "-m", "zipjax.cli.collective_check"],
        capture_output=True,
        text=True,
        timeout=_COLLECTIVE_TIME_S_MAX,
        check=False,
    )
    if done.returncode != 0:
        errors = re.findall(r"^[\w.]*(?:Error|Exception).*", done.stderr, re.MULTILINE)
        got = errors[-1] if errors else f"exit code {done.returncode}"
        raise ZipError("collectives must be exact on four virtual devices", got=got)


CHECKS = {
    "all 65,536 patterns of 16 bits": check_16_bit_patterns,
    "all patterns of 8 bits": check_8_bit_patterns,
    "weights compress, host and device": check_weights,
    "every dtype and kind of shape": check_dtypes,
    "container file, whole and damaged": check_container,
    "collectives on virtual devices": check_collectives,
}


def _require_same_bits(x: np.ndarray, what: str) -> None:
    got = np.asarray(decompress(compress(x)))
    num_wrong = int(np.count_nonzero(tensor_bytes(got) != tensor_bytes(x)))
    if got.dtype != x.dtype or got.shape != x.shape or num_wrong:
        raise ZipError(f"{what} must survive", got=f"{num_wrong} of {x.nbytes} bytes wrong")
