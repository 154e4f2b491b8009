"""Proof that compression changed nothing: two runs, compared bit by bit."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from zipjax.train.state import TrainState


@dataclass(frozen=True)
class Comparison:
    """How many elements of two states differ.

    Attributes:
        num_elements: compared.
        differing: names of the leaves that differ, and in how many elements.
    """

    num_elements: int
    differing: dict[str, int]

    @property
    def identical(self) -> bool:
        """Whether every bit is equal."""
        return not self.differing

    def sentence(self, *, steps: int) -> str:
        """What was found, in one sentence."""
        if self.identical:
            return (
                f"Bit-identical: all {self.num_elements:,} elements of parameters and optimizer "
                f"state after {steps} steps, compressed and raw."
            )
        worst = max(self.differing, key=self.differing.__getitem__)
        return (
            f"DIFFERENT after {steps} steps: {sum(self.differing.values()):,} of "
            f"{self.num_elements:,} elements in {len(self.differing)} arrays, most in {worst}."
        )


def compare_states(left: TrainState, right: TrainState) -> Comparison:
    """Compare parameters, optimizer state and step on bits, wherever their parts are."""
    count = jax.jit(lambda pair: jax.tree.map(_num_differing, *pair))
    counts, _ = jax.tree.flatten_with_path(count((left, right)))
    differing = {
        jax.tree_util.keystr(path, simple=True, separator="/"): int(number)
        for path, number in counts
    }
    return Comparison(
        sum(leaf.size for leaf in jax.tree.leaves(left)),
        {name: number for name, number in differing.items() if number},
    )


def _num_differing(left: jax.Array, right: jax.Array) -> jax.Array:
    bits = lambda x: lax.bitcast_convert_type(x, jnp.uint32)  # every leaf is 32 bits wide
    return jnp.sum(bits(left) != bits(right))
