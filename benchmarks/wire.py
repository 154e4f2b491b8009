"""How fast the wire codec is on one core, and in copies of the same bytes.

Times are CPU time of this process, the least of several calls: other programs on the machine
disturb that less. `benchmarks/codec.py` has the peers and wall-clock time.
"""

import sys
import time
from collections.abc import Callable

import harness
import jax
import jax.numpy as jnp
import numpy as np

from pallas_kernels import ExponentConfig, exponent_decode, exponent_encode

CONFIGS = {"default": ExponentConfig(), "gaussian": ExponentConfig.gaussian()}
ARGS = harness.arguments(__doc__.splitlines()[0]).parse_args()


def measure(x: jax.Array, name: str) -> dict:
    """Time both directions and check the bits; the first axis of a matrix is a batch."""
    encode: Callable = lambda x: exponent_encode(x, CONFIGS[name])
    decode: Callable = exponent_decode
    if x.ndim == 2:
        encode, decode = jax.vmap(encode), jax.vmap(decode)
    copy_ms, _ = cpu_ms(jax.jit(jnp.negative), x)
    encode_ms, payload = cpu_ms(jax.jit(encode), x)
    decode_ms, back = cpu_ms(jax.jit(decode), payload)
    bits = np.dtype(f"u{x.dtype.itemsize}")
    assert (np.asarray(back).view(bits) == np.asarray(x).view(bits)).all()
    batch = x.shape[0] if x.ndim == 2 else 1
    return {
        "dtype": x.dtype.name,
        "shape": "x".join(map(str, x.shape)),
        "config": name,
        "bits/element": 8 * batch * payload.nbytes / x.size,
        "encode ms": encode_ms,
        "decode ms": decode_ms,
        "encode GB/s": x.nbytes / encode_ms / 1e6,
        "decode GB/s": x.nbytes / decode_ms / 1e6,
        "encode / copy": encode_ms / copy_ms,
        "decode / copy": decode_ms / copy_ms,
    }


def cpu_ms(program: Callable, x: object) -> tuple[float, object]:
    """The least CPU time of a call, after one to compile, and what it returned."""
    result = jax.block_until_ready(program(x))
    times = []
    for _ in range(5 if ARGS.quick else 15):
        start = time.process_time()
        result = jax.block_until_ready(program(x))
        times.append(time.process_time() - start)
    return min(times) * 1e3, result


def main() -> int:
    """Run it all."""
    normal = jax.random.normal(jax.random.key(0), (1 << 20 if ARGS.quick else 1 << 24,)) * 0.02
    shapes = [
        (normal.astype(t), name) for t in ("bfloat16", "float16", "float32") for name in CONFIGS
    ]
    x = normal.astype(jnp.bfloat16)
    shapes += [(x.reshape(8, -1), "default"), (x[:-12_345], "default")]
    rows = [measure(x, name) for x, name in shapes]
    # A change of one line can cost five times as much without any other sign.
    bars = [
        harness.Bar("default, bfloat16, encode in copies", rows[0]["encode / copy"], "<=", 12),
        harness.Bar("default, bfloat16, decode in copies", rows[0]["decode / copy"], "<=", 6),
    ]
    columns = {"dtype": "", "shape": "", "config": "", "bits/element": ".3f"}
    columns |= {f"{way} {unit}": ".2f" for unit in ("ms", "GB/s") for way in ("encode", "decode")}
    columns |= {"encode / copy": ".1f", "decode / copy": ".1f"}
    title = "The wire codec on one core, CPU time; the last two columns are in copies"
    return harness.report(title, columns, rows, bars, ("jax", "jaxlib", "numpy"), ARGS)


if __name__ == "__main__":
    harness.on_one_core(ARGS.malloc)
    sys.exit(main())
