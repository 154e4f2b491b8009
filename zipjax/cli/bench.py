"""`zipjax bench kernels`: how fast the kernels are on this machine's GPU, and what suits them."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import tyro
from rich.table import Table

from pallas_kernels import (
    LAYOUT_MMA_T,
    CompressedTensor,
    DecodeMatmulConfig,
    Gpu,
    MatmulShape,
    TuningCache,
    UnsupportedError,
    ZipError,
    current_gpu,
    decode_matmul,
    decode_matmul_candidates,
    decode_matmul_config,
    dtype_from_name,
    encode,
    tuned,
)
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk

_ROUNDS = 20


@dataclass(frozen=True, kw_only=True)
class Bench(TalkOptions):
    """Time decode_matmul against x @ w in bfloat16; needs a GPU."""

    what: tyro.conf.Positional[Literal["kernels"]]
    """What to time."""
    shapes: tuple[str, ...] = ("4096x4096", "4096x14336", "14336x4096")
    """Matrices, KxN."""
    rows: tuple[int, ...] = (1, 16, 32, 64)
    """Rows of x."""
    tune: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Try every setting that fits, and keep the fastest for programs that ask for it."""

    def run(self) -> bool:
        """Time every product, tune it if asked, and say where the settings are."""
        gpu, device_kind = current_gpu(), jax.devices()[0].device_kind
        if gpu is None or jax.default_backend() != "gpu":
            raise ZipError(
                "kernels are timed on a GPU of a known kind",
                got=device_kind,
                fix="`zipjax dryrun` counts their instructions without one",
            )
        return run_on(gpu, device_kind, self)


def run_on(gpu: Gpu, device_kind: str, options: Bench) -> bool:
    """Do what `options` say with settings for `gpu`, on whatever device JAX has."""
    talk, cache = Talk(options), TuningCache.load(device_kind)
    shapes = [_shape(text, rows) for text in options.shapes for rows in options.rows]
    results = []
    with talk.progress("timing", len(shapes)) as advance, tuned(cache):
        for shape in shapes:
            results.append(_time_shape(gpu, shape, cache if options.tune else None))
            advance(1)
    talk.table(_table(results))
    path = str(cache.save()) if options.tune else ""
    talk.data({"device_kind": device_kind, "results": results, "settings": path})
    talk.summary(f"Tuned {len(results)} products, settings in {path}" if path else "Nothing kept.")
    return True


def _time_shape(gpu: Gpu, shape: MatmulShape, cache: TuningCache | None) -> dict[str, Any]:
    """Time a product; with a cache try all settings and put the best into it."""
    x_key, w_key = jax.random.split(jax.random.key(0))
    w = jax.random.normal(w_key, (shape.depth, shape.num_out), shape.dtype) * 0.02
    x = jax.random.normal(x_key, (shape.rows, shape.depth), shape.dtype)
    weight = encode(w, layout=LAYOUT_MMA_T if shape.dtype.itemsize == 2 else "rows16")
    if cache is not None:
        time_of = partial(_time_config_s, x, weight, shape, cache.device_kind)
        cache.configs[shape.key] = fastest(decode_matmul_candidates(gpu, shape), time_of)
    config = decode_matmul_config(gpu, shape)
    ours_s = _time_config_s(x, weight, shape, "", config)
    plain_s = _median_s(jax.jit(jnp.matmul), x, w)
    return {
        "K": shape.depth,
        "N": shape.num_out,
        "M": shape.rows,
        "stages": config.num_stages,
        "split_k": config.split_k,
        "ours_us": round(ours_s * 1e6, 1),
        "plain_us": round(plain_s * 1e6, 1),
    }


def fastest(
    candidates: list[DecodeMatmulConfig], time_of: Callable[[DecodeMatmulConfig], float]
) -> DecodeMatmulConfig:
    """The candidate with the least time, the first among equals; those that refuse are passed over.

    Raises:
        UnsupportedError: all refuse.
    """
    times: dict[DecodeMatmulConfig, float] = {}
    refusal: UnsupportedError | None = None
    for config in candidates:
        try:
            times[config] = time_of(config)
        except UnsupportedError as error:
            refusal = error
    if not times:
        raise UnsupportedError("no setting works", got=refusal or "no candidates")
    return min(times, key=lambda config: times[config])


def _time_config_s(
    x: jax.Array,
    weight: CompressedTensor,
    shape: MatmulShape,
    device_kind: str,
    config: DecodeMatmulConfig,
) -> float:
    with tuned(TuningCache(device_kind, {shape.key: config})):
        # A function of its own: one that was traced before would keep its settings.
        return _median_s(jax.jit(lambda x, weight: decode_matmul(x, weight)), x, weight)


def _median_s(program: Callable[..., jax.Array], *operands: Any) -> float:
    """Median seconds of a call, after one to compile."""
    times = []
    for turn in range(_ROUNDS + 1):
        start = time.perf_counter()
        jax.block_until_ready(program(*operands))
        if turn:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def _shape(text: str, rows: int) -> MatmulShape:
    sizes = text.split("x")
    if len(sizes) != 2 or not all(size.isascii() and size.isdigit() for size in sizes):
        raise ZipError("shapes must be KxN", got=repr(text), fix="for example 4096x14336")
    dtype = dtype_from_name("bfloat16")
    return MatmulShape(rows=rows, depth=int(sizes[0]), num_out=int(sizes[1]), dtype=dtype)


def _table(results: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in results[0] if results else ():
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(*map(str, result.values()))
    return table
