"""Mixtures whose every sum is exact in any order, so that two ways to add must agree on bits.

All values are small integers (weights of a choice: powers of two), so products and sums stay far
below 2**8 for what travels as bfloat16 and below 2**24 for what float32 adds.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from parallel import moe

NUM_EXPERTS, WIDTH_IN, WIDTH_OUT = 8, 16, 12
SPREAD = P(("slow", "fast"))


@dataclass(frozen=True)
class Case:
    """A mixture, all ranks' parts together.

    Attributes:
        matrices: float32 [E, D, F], the experts.
        tokens: float32 [T, D].
        routing: of all tokens.
        cotangent: float32 [T, F], of the result.
    """

    matrices: np.ndarray
    tokens: np.ndarray
    routing: moe.Routing
    cotangent: np.ndarray


def exact_case(num_tokens: int, num_selected: int, *, crowded: bool = False, seed: int = 0) -> Case:
    """Small integers everywhere; `crowded` sends every token to the same experts."""
    rng = np.random.default_rng(seed)

    def integers(*shape):
        return rng.integers(-2, 3, shape).astype(np.float32)

    chosen = [rng.permutation(NUM_EXPERTS)[:num_selected] for _ in range(num_tokens)]
    if crowded:
        chosen = [chosen[0]] * num_tokens
    routing = moe.Routing(
        np.stack(chosen).astype(np.int32),
        rng.choice([0.5, 1, 2], (num_tokens, num_selected)).astype(np.float32),
        np.zeros((num_tokens, NUM_EXPERTS), np.float32),
    )
    matrices = integers(NUM_EXPERTS, WIDTH_IN, WIDTH_OUT)
    tokens, cotangent = integers(num_tokens, WIDTH_IN), integers(num_tokens, WIDTH_OUT)
    return Case(matrices, tokens, routing, cotangent)


def linear_experts(matrices: jax.Array, rows: jax.Array) -> jax.Array:
    """One matrix per expert."""
    return jnp.einsum("end,edf->enf", rows.astype(jnp.float32), matrices)


def dense(case: Case):
    """The oracle: values, and gradients of matrices, tokens and weights."""

    def run(matrices, tokens, weights):
        routing = case.routing._replace(weights=weights)
        return moe.reference.mixture(linear_experts, matrices, tokens, routing)

    return _values_and_gradients(run, case)


def spread(case: Case, mesh: Mesh, *, experts=linear_experts, **options):
    """The same over the mesh, and the rounds it took: one number per slow rank."""

    def local(matrices, tokens, routing):
        matrices = lax.pcast(matrices, "slow", to="varying")
        mixed = moe.mixture(experts, matrices, tokens, routing, axis_name="fast", **options)
        return mixed.values, mixed.num_rounds[None], mixed.counts

    mapped = jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(P("fast"), SPREAD, SPREAD),
        out_specs=(SPREAD, P("slow"), SPREAD),
        check_vma=True,
    )

    def run(matrices, tokens, weights):
        return mapped(matrices, tokens, case.routing._replace(weights=weights))

    (values, num_rounds, _), gradients = jax.jit(lambda: _values_and_gradients(run, case))()
    return (values, gradients), num_rounds


def _values_and_gradients(run, case: Case):
    """What `run` returns, and gradients of the product of its (first) result and the cotangent."""

    def loss(matrices, tokens, weights):
        out = run(matrices, tokens, weights)
        values = out[0] if isinstance(out, tuple) else out
        return jnp.sum(values * case.cotangent), out

    operands = (case.matrices, case.tokens, case.routing.weights)
    (_, out), gradients = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)(*operands)
    return out, gradients
