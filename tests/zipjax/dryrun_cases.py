"""Programs that the dry run's tests compile in another process, by the names of these functions."""

import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallas_kernels import current_gpu

K_STEP = 64
NUM_ROWS = 64


def plain(size: int):
    """XLA alone."""
    return lambda x: jnp.tanh(x) @ x.T, (jax.ShapeDtypeStruct((size, size), jnp.bfloat16),)


def sum_over(devices):
    """A program over all devices, whose argument says how it is sharded."""
    mesh = jax.sharding.Mesh(np.array(devices), ("gpu",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("gpu"))
    operand = jax.ShapeDtypeStruct((1024, 256), jnp.float32, sharding=sharding)
    return jax.jit(lambda x: x.sum()), (operand,)


def the_kind():
    """Fails with the name of the GPU that it is made for."""
    raise ValueError(f"made for {current_gpu().name}")


def segfault():
    """Dies as a compiler may."""
    os.kill(os.getpid(), signal.SIGSEGV)


def leave():
    """Ends the process before it has compiled anything."""
    print("fatal: no room left", flush=True)
    os._exit(3)


def hang():
    """Never returns."""
    time.sleep(3600)


def nothing():
    """Returns no program."""
    return 1


def toy_matmul(num_columns: int, num_steps: int):
    """y[64, M] = (w ^ sign)[64, K] @ x[M, K].T: weights change in registers before wgmma."""
    k = num_steps * K_STEP

    def body(_, w_smem, x_smem, acc):
        words = _load(w_smem, plgpu.Layout.WGMMA) ^ jnp.uint16(0x8000)
        plgpu.wgmma(acc, lax.bitcast_convert_type(words, jnp.bfloat16), x_smem.T)
        plgpu.wgmma_wait(0)
        return acc

    def kernel(w_gmem, x_gmem, y_gmem):
        def consume(pipeline):
            def with_accumulator(acc):
                pipeline(acc)
                y_gmem[...] = acc[...]

            pl.run_scoped(with_accumulator, plgpu.ACC((NUM_ROWS, num_columns), jnp.float32))

        tiled = (plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128))

        def spec(num_rows):
            return plgpu.BlockSpec(
                (num_rows, K_STEP), lambda s: (0, s), transforms=tiled, memory_space=plgpu.SMEM
            )

        plgpu.emit_pipeline_warp_specialized(
            body,
            grid=(num_steps,),
            in_specs=[spec(NUM_ROWS), spec(num_columns)],
            memory_registers=40,
            wg_axis="wg",
            num_compute_wgs=1,
            max_concurrent_steps=2,
            compute_context=consume,
        )(w_gmem, x_gmem)

    call = plgpu.kernel(
        kernel,
        out_type=jax.ShapeDtypeStruct((NUM_ROWS, num_columns), jnp.float32),
        grid=(1,),
        grid_names=("tile",),
        num_threads=2,
        thread_name="wg",
        compiler_params=plgpu.CompilerParams(lowering_semantics=plgpu.LoweringSemantics.Warpgroup),
    )
    weights = jax.ShapeDtypeStruct((NUM_ROWS, k), jnp.uint16)
    return call, (weights, jax.ShapeDtypeStruct((num_columns, k), jnp.bfloat16))


def toy_copy(size: int):
    """No loop and no tensor core."""

    def kernel(x_gmem, y_gmem):
        y_gmem[...] = x_gmem[...] + jnp.float32(1)

    shape = jax.ShapeDtypeStruct((size,), jnp.float32)
    return plgpu.kernel(kernel, out_type=shape), (shape,)


def _load(ref, layout):
    """`plgpu.load` takes an index before jax 0.11."""
    index = ((),) if jax.__version_info__ < (0, 11, 0) else ()
    return plgpu.load(ref, *index, layout=layout)
