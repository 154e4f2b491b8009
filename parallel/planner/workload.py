"""What shall be planned: the sizes of a mixture-of-experts decoder on a mesh."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from pallas_kernels import ArgumentError

Layout = Literal["everywhere", "sharded", "replicated"]
Mode = Literal["train", "forward"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A decoder whose feed-forward layers are mixtures, and what a device has of it.

    Attributes:
        num_layers: blocks of attention and mixture, all alike.
        num_tokens: tokens per device and step; with layout "replicated", per node.
        seq_len: tokens of a sequence.
        width: elements of a token.
        num_heads: query heads.
        num_kv_heads: key and value heads.
        head_dim: elements of a head.
        num_experts: experts of a layer.
        num_selected: experts of a token.
        expert_hidden: elements between an expert's matrices.
        num_matrices: of an expert: 2, or 3 with a gate.
        shared_hidden: elements between the matrices of the expert that sees every token; 0: none.
        num_inter: mesh size over the slow link.
        num_intra: mesh size over the fast link.
        layout: "everywhere": experts spread over all devices, tokens of each device its own.
            "sharded": experts spread over nodes, each cut over the devices of its node (FSMoE).
            "replicated": as "sharded", and the devices of a node hold the same tokens, as tensor
            parallelism leaves them (Parm).
        mode: "train": forward, backward and the all-reduce of the dense gradients over nodes.
            "forward": the forward pass alone.
        element_nbytes: bytes of an element, on the wire too.
    """

    num_layers: int
    num_tokens: int
    seq_len: int
    width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_experts: int
    num_selected: int
    expert_hidden: int
    num_matrices: int = 3
    shared_hidden: int = 0
    num_inter: int
    num_intra: int
    layout: Layout = "everywhere"
    mode: Mode = "train"
    element_nbytes: int = 2

    def __post_init__(self):
        for name, value in asdict(self).items():
            least = 0 if name == "shared_hidden" else 1
            if isinstance(value, int) and value < least:
                raise ArgumentError(f"{name} must be at least {least}", got=value)
        if self.layout not in ("everywhere", "sharded", "replicated"):
            raise ArgumentError("layout must be everywhere, sharded or replicated", got=self.layout)
        if self.mode not in ("train", "forward"):
            raise ArgumentError("mode must be train or forward", got=self.mode)
        if self.num_selected > self.num_experts:
            raise ArgumentError(
                f"num_selected must be at most num_experts={self.num_experts}",
                got=self.num_selected,
            )

    @property
    def num_devices(self) -> int:
        """Of the mesh."""
        return self.num_inter * self.num_intra

    @property
    def dense_gradient_nbytes(self) -> float:
        """Bytes of the gradients of what all nodes share in a layer: attention, shared expert."""
        queries, keys = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        columns = 2 * queries + 2 * keys + self.num_matrices * self.shared_hidden
        return float(self.width * columns * self.element_nbytes)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)
