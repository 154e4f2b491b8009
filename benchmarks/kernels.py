"""Decoding inside the matrix product against x @ w in bfloat16 on a GPU, checked and then timed.

Each time is that of a program with so many products, each with a matrix of its own, that they fit
into no level-2 cache together; times are medians over rounds that take turns. `--quick` does the
same on any machine with small matrices: it shows that it works, not how fast.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import harness
import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels import CompressedTensor, Gpu, current_gpu, decode, decode_matmul, encode
from pallas_kernels.codecs import triple_bitmap

ARGS = harness.arguments(__doc__.splitlines()[0]).parse_args()
PACKAGES = ("jax", "jaxlib", "jax-cuda13-plugin", "numpy")


class Layer(NamedTuple):
    """A matrix [depth, num_out] of a model."""

    model: str
    name: str
    depth: int
    num_out: int


# From the models' config.json: hidden_size, intermediate_size, heads * head_dim.
LAYERS = (
    Layer("Llama-3.1-8B", "query", 4096, 4096),
    Layer("Llama-3.1-8B", "key", 4096, 1024),
    Layer("Llama-3.1-8B", "up", 4096, 14336),
    Layer("Llama-3.1-8B", "down", 14336, 4096),
    Layer("Qwen3-30B-A3B", "expert up", 2048, 768),
    Layer("Qwen3-30B-A3B", "expert down", 768, 2048),
    Layer("Mistral-24B", "query", 5120, 4096),
    Layer("Mistral-24B", "up", 5120, 32768),
    Layer("Mistral-24B", "down", 32768, 5120),
)
ROWS = (1, 8, 16, 32, 64, 128, 1024, 8192)
QUICK_LAYERS = (Layer("small", "square", 256, 256), Layer("small", "prime", 211, 307))
QUICK_ROWS = (1, 16)


def main() -> int:
    """Run it all."""
    gpu = current_gpu()
    if jax.default_backend() != "gpu" and not ARGS.quick:
        print("benchmarks/kernels.py needs a GPU (or --quick)", file=sys.stderr)
        return 2
    check_against_the_oracle()
    copy_bytes_per_s = measured_copy()
    rows = []
    for layer in QUICK_LAYERS if ARGS.quick else LAYERS:
        rows += measure_layer(layer, gpu, copy_bytes_per_s)
    columns = {"model": "", "layer": "", "K": "d", "N": "d", "M": "d", "plain us": ".1f"}
    columns |= {"ours us": ".1f", "plain / ours": ".2f", "stored GB/s": ".0f", "/ copy": ".2f"}
    columns |= {"decode us": ".1f", "decode / copy": ".2f"}
    device = jax.devices()[0].device_kind
    title = f"decode_matmul on {device}; a copy moves {copy_bytes_per_s / 1e9:.0f} GB/s"
    return harness.report(title, columns, rows, bars(rows), PACKAGES, ARGS)


def bars(rows: list[dict[str, Any]]) -> list[harness.Bar]:
    """What is promised for an H200; nothing of small matrices."""
    if ARGS.quick:
        return []
    large = [row for row in rows if row["K"] * row["N"] >= 4096 * 14336]
    few = min(row["plain / ours"] for row in large if row["M"] <= 32)
    decoding = min(row["decode / copy"] for row in large)
    return [
        harness.Bar("x @ w over decode_matmul, M <= 32, 4096 x 14336 and larger", few, ">=", 1.2),
        harness.Bar("decode over a copy, 4096 x 14336 and larger", decoding, ">=", 0.8),
    ]


def check_against_the_oracle() -> None:
    """Decoded bits, and products within their error, on values no encoder likes."""
    rng = np.random.default_rng(time.time_ns())
    patterns = np.arange(1 << 16, dtype=np.uint16).view(jnp.bfloat16)
    w = (rng.standard_normal((512, 1024)) * 0.02).astype(jnp.bfloat16)
    w.reshape(-1)[:: w.size >> 16] = rng.permutation(patterns)
    tensor = on_device(w)
    poison(w.nbytes)
    require_same_bits(decode(tensor), w)
    oracle = triple_bitmap.decode(triple_bitmap.encode(w), w.dtype, w.shape)
    require_same_bits(oracle, w)
    for depth, num_out in ((512, 1024), (1003, 997), (1, 5), (300, 1)):
        for rows in (1, 3, 16, 65):
            check_product(rng, rows, depth, num_out)


def check_product(rng: np.random.Generator, rows: int, depth: int, num_out: int) -> None:
    """One product, and the gradient's, into memory that was full of NaN."""
    w = (rng.standard_normal((depth, num_out)) * 0.02).astype(jnp.bfloat16)
    x = rng.standard_normal((rows, depth)).astype(jnp.bfloat16)
    for transpose, operand, matrix in ((False, x, w), (True, x @ w, w.T)):
        operand = operand.astype(jnp.bfloat16)
        tensor = on_device(w, transpose=transpose)
        exact = operand.astype(np.float64) @ matrix.astype(np.float64)
        poison(rows * matrix.shape[1] * 2)
        product = jax.jit(lambda x, t, s=transpose: decode_matmul(x, t, transpose=s))
        y = np.asarray(product(jnp.asarray(operand), tensor), np.float64)
        size = np.abs(operand.astype(np.float64)) @ np.abs(matrix.astype(np.float64))
        # Sums in float32 in any order, then one rounding to 8 bits.
        bound = size * ((matrix.shape[0] + 1) * 2.0**-23 + 2.0**-8) + 1e-37
        if not (np.abs(y - exact) <= bound).all():
            raise AssertionError(f"x [{rows}, {depth}] @ w [{depth}, {num_out}], {transpose=}")


def measured_copy() -> float:
    """Bytes a second, in and out, of the plainest program over 1 GiB."""
    x = jnp.zeros((1 << (16 if ARGS.quick else 28),), jnp.uint32)
    copy = jax.jit(lambda x: x ^ 1)
    return 2 * x.nbytes / median_s({"copy": lambda: copy(x)}, 20)["copy"]


def measure_layer(
    layer: Layer, gpu: Gpu | None, copy_bytes_per_s: float
) -> Iterator[dict[str, Any]]:
    """A row for each number of rows of x."""
    plain_nbytes = 2 * layer.depth * layer.num_out
    l2_nbytes = gpu.l2_nbytes if gpu else 1 << 20
    count = 2 if ARGS.quick else max(2, math.ceil(2.2 * l2_nbytes / plain_nbytes))
    key = jax.random.key(time.time_ns() & 0xFFFF)
    shape = (layer.depth, layer.num_out)
    plain = [
        (jax.random.normal(k, shape) * 0.02).astype(jnp.bfloat16)
        for k in jax.random.split(key, count)
    ]
    stored = [on_device(np.asarray(w)) for w in plain]
    for tensor, w in zip(stored, plain, strict=True):
        require_same_bits(decode(tensor), w)
    decode_all = jax.jit(lambda tensors: [decode(tensor) for tensor in tensors])
    decode_s = median_s({"decode": lambda: decode_all(stored)}, 10)["decode"] / count
    stored_nbytes = sum(tensor.nbytes for tensor in stored) / count
    decode_bytes_per_s = (stored_nbytes + plain_nbytes) / decode_s
    for rows in QUICK_ROWS if ARGS.quick else ROWS:
        plain_s, ours_s = (taken / count for taken in measure_product(rows, plain, stored))
        yield {
            "model": layer.model,
            "layer": layer.name,
            "K": layer.depth,
            "N": layer.num_out,
            "M": rows,
            "plain us": plain_s * 1e6,
            "ours us": ours_s * 1e6,
            "plain / ours": plain_s / ours_s,
            "stored GB/s": stored_nbytes / ours_s / 1e9,
            "/ copy": stored_nbytes / ours_s / copy_bytes_per_s,
            "decode us": decode_s * 1e6,
            "decode / copy": decode_bytes_per_s / copy_bytes_per_s,
        }


def measure_product(
    rows: int, plain: list[jax.Array], stored: list[CompressedTensor]
) -> tuple[float, float]:
    """Seconds of all products, plain and ours. Each has its own x: XLA merges products of one x."""
    keys = jax.random.split(jax.random.key(rows), len(plain))
    depth = plain[0].shape[0]
    xs = [jax.random.normal(k, (rows, depth), jnp.bfloat16) for k in keys]
    multiply = jax.jit(lambda xs, ws: [x @ w for x, w in zip(xs, ws, strict=True)])
    fused = jax.jit(lambda xs, ts: [decode_matmul(x, t) for x, t in zip(xs, ts, strict=True)])
    wanted = np.asarray(multiply(xs, plain)[0], np.float32)
    poison(wanted.size * 2)
    got = np.asarray(fused(xs, stored)[0], np.float32)
    scale = np.abs(wanted).max() + 1e-6
    if not np.abs(got - wanted).max() <= scale * 2.0**-6:  # two roundings to 8 bits, and sums
        raise AssertionError(f"decode_matmul differs from x @ w, M = {rows}, {plain[0].shape}")
    calls = {"plain": lambda: multiply(xs, plain), "ours": lambda: fused(xs, stored)}
    taken = median_s(calls, 20)
    return taken["plain"], taken["ours"]


def median_s(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each call, taking turns; one call each to compile."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range((3 if ARGS.quick else rounds) + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def on_device(w: np.ndarray, *, transpose: bool = False) -> CompressedTensor:
    """Compressed, in the layout in which kernels take x @ w, or x @ w.T."""
    layout = "mma16x256" if transpose else "mma256x16"
    return jax.tree.map(jnp.asarray, encode(w, layout=layout))


def poison(nbytes: int) -> None:
    """Leave NaN in the memory that the next results get."""
    for _ in range(4):
        jax.block_until_ready(jnp.full((max(1, nbytes // 2),), jnp.nan, jnp.bfloat16))


def require_same_bits(got: jax.Array | np.ndarray, want: jax.Array | np.ndarray) -> None:
    """Refuse to time what is wrong."""
    got, want = (np.asarray(x).reshape(-1).view(np.uint16) for x in (got, want))
    if not np.array_equal(got, want):
        raise AssertionError(f"{(got != want).sum()} of {got.size} elements have other bits")


if __name__ == "__main__":
    sys.exit(main())
