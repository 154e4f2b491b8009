"""One of two processes that sum and gather large buffers over and over, and check every bit.

    python -m tests.parallel.two_ranks PORT RANK CODEC [SECONDS_LATE]

Each process makes both ranks' data from seeds, so that what it expects has been through no
collective. Every other repeat has all signs changed, which a stale buffer would not survive.
With SECONDS_LATE, rank 1 arrives so late at a second repeat, which is then the last.
"""

import sys
import time

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import parallel

NUM_REPEATS = 60
PART_ELEMS = 4 << 20  # 32 MiB of float32 a rank, in two parts


def main(port: str, rank: str, codec: str, seconds_late: str = "0") -> None:
    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=int(rank))
    check_repeats(int(rank), None if codec == "raw" else codec, float(seconds_late))
    jax.distributed.shutdown()


def check_repeats(rank: int, codec, seconds_late: float) -> None:
    mesh = parallel.make_mesh({"ranks": 2})
    # [rank, part, element]; a part is what is gathered, and what a sum leaves on a rank.
    whole, parts = make(0, 2), make(1, 1)
    want = (whole[0] + whole[1])[rank], parts.reshape(2, PART_ELEMS)
    program = both_ways(mesh, codec)
    for repeat in range(2 if seconds_late else NUM_REPEATS):
        if rank == 1 and repeat == 1:
            time.sleep(seconds_late)
        sign = np.float32(-1 if repeat % 2 else 1)
        args = (globally(mesh, sign * whole[rank]), globally(mesh, sign * parts[rank]))
        for name, result in zip(("sum", "gathered"), program(*args), strict=True):
            for way, array in result.items():
                local = np.asarray(array.addressable_data(0))[0]
                same = local.view(np.uint32) == (sign * want[name == "gathered"]).view(np.uint32)
                assert same.all(), f"{name} {way}, repeat {repeat}: {(~same).sum()} elements wrong"


def make(seed: int, num_parts: int) -> np.ndarray:
    shape = (2, num_parts, PART_ELEMS)
    return np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(0.02)


def globally(mesh, local: np.ndarray) -> jax.Array:
    return jax.make_array_from_process_local_data(
        NamedSharding(mesh, P("ranks")), local[None], (2, *local.shape)
    )


def both_ways(mesh, codec):
    """`(whole, part) -> (sums, gathers)`, each as a forward collective and as a gradient."""

    def body(whole, part):
        scatter = lambda x: parallel.psum_scatter(x, "ranks", codec=codec)
        gather = lambda x: parallel.all_gather(x, "ranks", codec=codec)
        summed, pull_sum = jax.vjp(scatter, whole[0])
        gathered, pull_gather = jax.vjp(gather, part[0, 0])
        sums = {"forward": summed, "as a gradient": pull_gather(whole[0])[0]}
        gathers = {"forward": gathered, "as a gradient": pull_sum(part[0, 0])[0]}
        return jax.tree.map(lambda x: x[None], (sums, gathers))

    spec = P("ranks")
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(spec, spec), out_specs=spec))


if __name__ == "__main__":
    main(*sys.argv[1:])
