"""Where the variables of a model are: every holder of each, shared ones once."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from flax import nnx

from zipjax.nn import bridged_params


@dataclass(frozen=True)
class Holder:
    """An attribute, or an entry of a list or dict, that holds a variable.

    Attributes:
        path: of the node that holds it; "" for the model itself.
        node: that node.
        name: of the attribute or entry.
    """

    path: str
    node: Any
    name: str

    @property
    def variable_path(self) -> str:
        """Path of the variable through this holder."""
        return f"{self.path}.{self.name}" if self.path else self.name


@dataclass(frozen=True)
class Held:
    """A variable and all that hold it, by path; the first gives it its name."""

    variable: nnx.Variable
    holders: list[Holder] = field(default_factory=list)


def take_inventory(model: nnx.Module) -> list[Held]:
    """All variables of a model by their paths, numbers in order."""
    nodes = [(".".join(map(str, path)), node) for path, node in nnx.iter_graph(model)]
    bridges = tuple(f"{path}." for path, node in nodes if isinstance(node, nnx.bridge.ToNNX))
    holders = [
        (value, Holder(path, node, str(name)))
        for path, node in nodes
        if not _is_inside(path, bridges)
        for name, value in _entries(node)
        if isinstance(value, nnx.Variable)
    ]
    found: dict[int, Held] = {}
    for variable, holder in sorted(holders, key=lambda entry: _natural(entry[1].variable_path)):
        found.setdefault(id(variable), Held(variable)).holders.append(holder)
    return list(found.values())


def _natural(path: str) -> list[tuple[int, str]]:
    """A key by which layer 10 comes after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in path.split(".")]


def _is_inside(path: str, bridges: tuple[str, ...]) -> bool:
    """Whether a node is one of the dicts in which a bridge keeps a Linen module's variables."""
    return bool(path) and any(path.startswith(bridge.lstrip(".")) for bridge in bridges)


def _entries(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, nnx.bridge.ToNNX):
        yield from bridged_params(node).items()
    elif isinstance(node, nnx.Pytree):
        yield from vars(node).items()
    elif isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list | tuple):
        yield from enumerate(node)
