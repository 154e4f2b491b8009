"""Models for the tests of compression: every layer with a twin, wherever a layer can be."""

import jax
import jax.numpy as jnp
from flax import nnx

from tests.support.equal import assert_same_bits
from zipjax.nn import SwigluExperts

BF16 = {"param_dtype": jnp.bfloat16}


class Block(nnx.Module):
    """A residual feed-forward block, float32 and bfloat16."""

    def __init__(self, width: int, rngs: nnx.Rngs):
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, **BF16, rngs=rngs)

    def __call__(self, x):
        return x + self.down(jax.nn.silu(self.up(self.norm(x))))


class Zoo(nnx.Module):
    """Layers in lists and dicts, shared, stacked, and of every kind."""

    def __init__(self, rngs: nnx.Rngs, width: int = 128):
        self.embed = nnx.Embed(300, width, **BF16, rngs=rngs)
        self.layers = nnx.List([Block(width, rngs) for _ in range(2)])
        self.again = self.layers[0]
        self.named = nnx.Dict(conv=nnx.Conv(width, width, (3,), **BF16, rngs=rngs))
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)
        self.mix = nnx.Einsum("btd,df->btf", (width, width), (width,), **BF16, rngs=rngs)
        self.experts = SwigluExperts(2, width, width, **BF16, rngs=rngs)
        self.stack = stacked_blocks(3, width, rngs)

    def __call__(self, tokens):
        x = self.embed(tokens).astype(jnp.float32)
        for layer in self.layers:
            x = layer(x)
        x = self.attention(self.mix(self.named["conv"](x)))
        x = run_stack(self.stack, self.again(x))
        rows = jnp.broadcast_to(x.reshape(1, -1, x.shape[-1]), (2, x.size // x.shape[-1], 128))
        x = self.experts(rows)[0].reshape(x.shape)
        return self.embed.attend(x)


def stacked_blocks(num_layers: int, width: int, rngs: nnx.Rngs) -> Block:
    """Blocks drawn independently, their parameters stacked."""

    @nnx.split_rngs(splits=num_layers)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def draw(rngs):
        return Block(width, rngs)

    return draw(rngs)


@nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
def run_stack(block, x):
    """One block after the other."""
    return block(x)


@nnx.jit
def apply(model, x):
    """Under `nnx.jit`."""
    return model(x)


def snapshot(model: nnx.Module) -> tuple:
    """The graph and the state of a model, held by themselves."""
    graphdef, state = nnx.split(model)
    return graphdef, jax.tree.map(lambda leaf: leaf.copy(), state)


def assert_same_model(model: nnx.Module, before: tuple) -> None:
    """The same classes, variables, metadata and bits as at `snapshot`."""
    graphdef, state = nnx.split(model)
    assert graphdef == before[0]
    assert_same_bits(state, before[1])
