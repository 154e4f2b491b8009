"""A bank of SwiGLU experts that work on their rows side by side."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, DTypeLike, Float


class ExpertParam(nnx.Param):
    """A parameter whose first axis (after any axis of stacked layers) counts experts.

    Its type is how the trainer knows what to spread over the expert axis of the mesh.
    """


class SwigluExperts(nnx.Module):
    """E feed-forward networks: down(silu(gate(x)) * up(x)) (Shazeer 2020, equation 6)."""

    def __init__(
        self,
        num_experts: int,
        width: int,
        hidden: int,
        *,
        dtype: DTypeLike = jnp.float32,
        param_dtype: DTypeLike = jnp.float32,
        rngs: nnx.Rngs,
    ):
        """Make the three matrices of every expert, without biases.

        Args:
            num_experts: E.
            width: elements of a token, in and out.
            hidden: elements between.
            dtype: dtype of the computation.
            param_dtype: dtype of the parameters.
            rngs: uses the stream "params".
        """
        self.dtype = dtype
        init = nnx.initializers.lecun_normal(batch_axis=(0,))

        def matrices(rows: int, columns: int) -> ExpertParam:
            return ExpertParam(init(rngs.params(), (num_experts, rows, columns), param_dtype))

        self.gate = matrices(width, hidden)
        self.up = matrices(width, hidden)
        self.down = matrices(hidden, width)

    def __call__(self, rows: Float[Array, "E N W"]) -> Float[Array, "E N W"]:
        """Apply expert e to `rows[e]`; a zero row stays zero.

        Args:
            rows: float [E, N, width].

        Returns:
            `dtype` [E, N, width].
        """
        rows = rows.astype(self.dtype)
        gate = jnp.einsum("enw,ewh->enh", rows, self.gate[...].astype(self.dtype))
        up = jnp.einsum("enw,ewh->enh", rows, self.up[...].astype(self.dtype))
        down = self.down[...].astype(self.dtype)
        return jnp.einsum("enh,ehw->enw", jax.nn.silu(gate) * up, down)
