"""The mesh of a run, and which parameter lies where on it."""

import jax
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from pallas_kernels import ArgumentError
from parallel import make_mesh
from zipjax.nn import ExpertParam

DATA_AXIS = "data"  # slow: copies of the experts
EXPERT_AXIS = "expert"  # fast: parts of the bank of experts
BATCH_AXES = (DATA_AXIS, EXPERT_AXIS)
BATCH_SPEC = P(BATCH_AXES)


def make_train_mesh(num_experts: int) -> Mesh:
    """Lay out all devices as (data, expert), as square as the experts allow.

    The expert axis is the fast one. It takes the largest number of devices that divides the
    experts, leaves at least two copies where there are four devices or more, and does not cross
    processes where one process has several devices.

    Args:
        num_experts: experts per layer.
    """
    num_devices = jax.device_count()
    local = jax.local_device_count()
    most = local if jax.process_count() > 1 and local > 1 else num_devices
    most = min(most, max(num_devices // 2, 1) if num_devices >= 4 else num_devices)
    fits = [n for n in range(1, most + 1) if num_devices % n == 0 and num_experts % n == 0]
    return make_mesh({DATA_AXIS: -1, EXPERT_AXIS: max(fits)})


def param_specs(params: nnx.State) -> nnx.State:
    """A tree like `params` with a `PartitionSpec` for every parameter.

    The axis of experts (the second: blocks are stacked) is spread over `EXPERT_AXIS`; everything
    else is on every device.
    """

    def spread(param: nnx.Variable) -> nnx.Variable:
        spec = P(None, EXPERT_AXIS) if isinstance(param, ExpertParam) else P()
        return jax.tree.map(lambda _: spec, param)

    return jax.tree.map(spread, params, is_leaf=lambda node: isinstance(node, nnx.Variable))


def check_layout(mesh: Mesh, *, batch: int, num_experts: int) -> None:
    """Refuse a batch or a bank of experts that does not divide over the mesh.

    Raises:
        ArgumentError: with the numbers.
    """
    num_ranks = mesh.shape[EXPERT_AXIS]
    if num_experts % num_ranks:
        raise ArgumentError(
            f"num_experts must be divisible by the {num_ranks} devices of the expert axis",
            got=num_experts,
        )
    if batch % mesh.size:
        raise ArgumentError(
            f"the batch must be divisible by the {mesh.size} devices",
            got=batch,
            fix=f"for example --batch {-(-batch // mesh.size) * mesh.size}",
        )


def shardings(mesh: Mesh, specs: PyTree) -> PyTree:
    """Turn a tree of `PartitionSpec` into one of shardings."""
    return jax.tree.map(
        lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda leaf: isinstance(leaf, P)
    )
