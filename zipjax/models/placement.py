"""Where each parameter of a causal model goes on a mesh: a rule for each kind of layer."""

import math
from dataclasses import dataclass

from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from pallas_kernels import ArgumentError
from zipjax.models.hf_names import Slot

# Tensor parallelism (Megatron-LM, section 3): the first matrix of a pair is cut by columns, so
# that each device computes heads or hidden elements of its own, and the second by rows.
BY_COLUMNS = frozenset("q_proj k_proj v_proj q_b_proj kv_b_proj gate_proj up_proj lm_head".split())
BY_ROWS = frozenset("o_proj down_proj".split())


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A mesh and what its axes are for.

    An axis that the mesh does not have is not used, and neither is one whose size does not divide
    the axis of a parameter: that parameter is then whole on every device of the axis.

    Attributes:
        mesh: the devices.
        tensor_axis: cuts heads, hidden elements, and the rows of the table of tokens.
        expert_axis: spreads experts.
    """

    mesh: Mesh
    tensor_axis: str = "tensor"
    expert_axis: str = "expert"

    def __post_init__(self):
        if not {self.tensor_axis, self.expert_axis} & set(self.mesh.axis_names):
            raise ArgumentError(
                f"the mesh must have an axis {self.tensor_axis!r} or {self.expert_axis!r}",
                got=self.mesh.axis_names,
                fix="name the axes by tensor_axis and expert_axis",
            )

    def sharding(self, slot: Slot) -> NamedSharding:
        """Where the parameter of `slot` goes."""
        axes = zip(_axes(slot, self), slot.shape, strict=True)
        return NamedSharding(self.mesh, P(*(self._usable(axis, size) for axis, size in axes)))

    @property
    def spreads_experts(self) -> bool:
        """Whether different devices have different experts."""
        return self.mesh.shape.get(self.expert_axis, 1) > 1

    def part_nbytes(self, slot: Slot, nbytes: int) -> int:
        """Bytes that one device holds of a parameter of `nbytes`."""
        part = self.sharding(slot).shard_shape(slot.shape)
        return math.ceil(nbytes * math.prod(part) / math.prod(slot.shape))

    def _usable(self, axis: str | None, size: int) -> str | None:
        if axis not in self.mesh.axis_names or size % self.mesh.shape[axis]:
            return None
        return axis


def _axes(slot: Slot, placement: Placement) -> tuple[str | None, ...]:
    """The mesh axis wanted for each axis of the parameter."""
    tensor, leaf = placement.tensor_axis, slot.path[-1]
    module = str(slot.path[-2])
    if slot.stacked:
        matrix = (tensor, None) if leaf == "down" else (None, tensor)
        return placement.expert_axis, *matrix
    if leaf == "embedding":
        return tensor, None
    if module in BY_COLUMNS:
        return (None, tensor) if leaf == "kernel" else (tensor,)
    if module in BY_ROWS and leaf == "kernel":
        return tensor, None
    return (None,) * len(slot.shape)
