"""Where the cache of a model on a mesh lies: there from the first program on, so two will do."""

from typing import NamedTuple, TypeVar

import jax
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from zipjax.models import CausalLM, GroupedConfig

Tree = TypeVar("Tree")
_HEADS_DIM = 2  # Of a cache of keys or values, [B, S, K, D].


class Places(NamedTuple):
    """Shardings of keys and values, and of everything else."""

    heads: NamedSharding
    rest: NamedSharding

    def put(self, tree: Tree) -> Tree:
        """Arrays moved to their places."""
        return jax.tree.map(lambda x: jax.device_put(x, self._of(x)), tree)

    def keep(self, tree: Tree) -> Tree:
        """Inside `jax.jit`: results that stay in their places."""
        return jax.tree.map(lambda x: jax.lax.with_sharding_constraint(x, self._of(x)), tree)

    def _of(self, x: jax.Array) -> NamedSharding:
        return self.heads if x.ndim > _HEADS_DIM + 1 else self.rest


def places_of(model: CausalLM) -> Places | None:
    """Heads are cut as the attention's matrices are, where they can be; None without a mesh."""
    axes: dict[str, None] = {}
    mesh = None
    for x in jax.tree.leaves(nnx.state(model.layers[0].self_attn)):
        if isinstance(x.sharding, NamedSharding) and x.sharding.mesh.size > 1:
            mesh = x.sharding.mesh
            for names in x.sharding.spec:
                # An entry is None, a name, or a tuple of them.
                axes |= dict.fromkeys((names,) if isinstance(names, str) else names or ())
    if mesh is None:
        return None
    whole = NamedSharding(mesh, PartitionSpec())
    num_parts = 1
    for name in axes:
        num_parts *= mesh.shape[name]
    attention = model.config.attention
    if not isinstance(attention, GroupedConfig) or attention.num_kv_heads % num_parts:
        return Places(whole, whole)
    return Places(NamedSharding(mesh, PartitionSpec(None, None, tuple(axes) or None)), whole)
