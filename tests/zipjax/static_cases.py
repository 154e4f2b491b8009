"""Cases for `benchmarks/kernels_static.py`: the toy kernel, with a bar that fails."""

from kernel_cases import StaticCase

from zipjax.dryrun import KernelCase, LoopWork


def cases(gpu):
    """One case that holds, one whose bar is out of reach, and one without tensor cores."""
    kernels = [
        KernelCase(
            name="toy_matmul",
            config={"M": num_columns},
            factory="tests.zipjax.dryrun_cases:toy_matmul",
            arguments={"num_columns": num_columns, "num_steps": 8},
            work=LoopWork(weights_per_thread=64 * 64 / 128, hbm_bytes_per_weight=2),
        )
        for num_columns in (8, 16)
    ]
    copy = KernelCase(
        name="toy_copy",
        config={},
        factory="tests.zipjax.dryrun_cases:toy_copy",
        arguments={"size": 128},
        work=LoopWork(weights_per_thread=1),
    )
    return [
        StaticCase(kernel=kernels[0], at_most={"smem_bytes_per_weight": 2}, uses_tensor_cores=True),
        StaticCase(kernel=kernels[1], at_most={"issue_slots_per_weight": 0.5}),
        StaticCase(kernel=copy),
    ]
