"""What data of many kinds need of the wire codec's static room: `python benchmarks/wire_room.py`.

Synthetic data, and the gradients, activations and optimizer moments of a small transformer that
this script trains on the source text of Python's standard library. For each: how many elements
there are for one that needs the far list, and whether the payload overflows.
"""

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from pallas_kernels import ExponentConfig, exponent_encode

CONFIGS = {"default": ExponentConfig(), "gaussian": ExponentConfig.gaussian()}
WIDTH, HEADS, LAYERS, LENGTH, BATCH = 256, 4, 3, 128, 16


def main() -> None:
    """Print one table a source."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120, help="training steps")
    steps = parser.parse_args().steps
    print_table("synthetic", synthetic(1 << 20))
    for step, tensors in training(steps):
        print_table(f"transformer, step {step}", tensors)


def print_table(title: str, tensors: dict[str, np.ndarray]) -> None:
    """Elements for each far one, by configuration; bfloat16."""
    print(f"{title}\n{'':34} {'elements':>9} {'zeros':>6}", *(f"{name:>16}" for name in CONFIGS))
    for name, values in tensors.items():
        x = jnp.asarray(values, jnp.bfloat16)
        cells = []
        for config in CONFIGS.values():
            payload = exponent_encode(x, config)
            per_far = x.size / max(int(payload.num_far), 1)
            cells.append(f"{per_far:10.0f} {'over ' if payload.overflow else '     '}")
        print(f"{name:34} {x.size:9} {float((x == 0).mean()):6.3f}", *cells)


def synthetic(n: int) -> dict[str, np.ndarray]:
    """Data by the name of its distribution."""
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(n)
    rows = normal.reshape(-1, 1024)
    softmax = np.exp(2 * normal.reshape(-1, 256))
    return {
        "normal": normal * 0.02,
        "normal, row scales 2**3": rows * 2.0 ** rng.uniform(-1.5, 1.5, (len(rows), 1)),
        "uniform": rng.uniform(-1, 1, n),
        "lognormal": np.exp(normal),
        "laplace": rng.laplace(0, 0.02, n),
        "student t5": rng.standard_t(5, n),
        "student t3": rng.standard_t(3, n),
        "cauchy": rng.standard_cauchy(n),
        "SiLU": normal / (1 + np.exp(-normal)),
        "GELU": np.asarray(jax.nn.gelu(jnp.asarray(normal, jnp.float32))),
        "ReLU": np.maximum(normal, 0),
        "dropout 0.1": normal * (rng.random(n) > 0.1),
        "0.1 % zeros": normal * (rng.random(n) > 0.001),
        "rows of zeros, 30 %": rows * (rng.random((len(rows), 1)) > 0.3),
        "product of two normals": normal * rng.standard_normal(n),
        "square of a normal": normal**2,
        "softmax": softmax / softmax.sum(1, keepdims=True),
    }


def training(num_steps: int):
    """Train, and yield what would travel at the start, after a quarter, and at the end."""
    parameters = initial(jax.random.key(0))
    optimizer = optax.adamw(1e-3)
    state = optimizer.init(parameters)
    probes = jnp.zeros((LAYERS, BATCH, LENGTH, WIDTH))  # their gradients are those of activations

    @jax.jit
    def step(parameters, state, tokens):
        of = jax.value_and_grad(loss, (0, 1), has_aux=True)
        (_, activations), (gradients, of_activations) = of(parameters, probes, tokens)
        updates, state = optimizer.update(gradients, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return parameters, state, gradients, of_activations, activations

    text = np.frombuffer(
        b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py"))),
        np.uint8,
    )
    rng = np.random.default_rng(0)
    for k in range(num_steps + 1):
        starts = rng.integers(0, len(text) - LENGTH - 1, BATCH)
        tokens = np.stack([text[s : s + LENGTH + 1] for s in starts]).astype(np.int32)
        parameters, state, gradients, of_activations, activations = step(parameters, state, tokens)
        if k in (0, num_steps // 4, num_steps):
            yield k, named(gradients, of_activations, activations, state)


def named(gradients, of_activations, activations, state) -> dict[str, np.ndarray]:
    """What would travel, by name."""
    flat = jax.tree_util.tree_leaves_with_path(gradients)
    tensors = {f"gradient {jax.tree_util.keystr(p)}": g for p, g in flat if g.size >= 65_536}
    tensors |= {f"gradient of activation {k}": g for k, g in enumerate(of_activations)}
    tensors |= activations
    bucket = lambda tree: jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)])
    tensors["all gradients in one bucket"] = bucket(gradients)
    tensors["first moments"] = bucket(state[0].mu)
    tensors["second moments"] = bucket(state[0].nu)
    return tensors


def initial(key: jax.Array) -> dict:
    """Parameters of a decoder of bytes: attention and SwiGLU."""
    keys = iter(jax.random.split(key, 8 * LAYERS + 2))
    matrix = lambda rows, columns: jax.random.normal(next(keys), (rows, columns)) * rows**-0.5
    layer = lambda: {
        "qkv": matrix(WIDTH, 3 * WIDTH),
        "out": matrix(WIDTH, WIDTH),
        "gate": matrix(WIDTH, 4 * WIDTH),
        "up": matrix(WIDTH, 4 * WIDTH),
        "down": matrix(4 * WIDTH, WIDTH),
        "norms": jnp.ones((2, WIDTH)),
    }
    embedding = 0.02 * jax.random.normal(next(keys), (256, WIDTH))
    layers = [layer() for _ in range(LAYERS)]
    return {"embedding": embedding, "head": matrix(WIDTH, 256), "layers": layers}


def loss(parameters, probes, tokens):
    """Mean cross-entropy of the next byte, and the activations by name."""
    x = parameters["embedding"][tokens[:, :-1]]
    activations = {}
    for k, layer in enumerate(parameters["layers"]):
        x = x + attention(norm(x, layer["norms"][0]), layer)
        normed = norm(x, layer["norms"][1]) + probes[k]
        hidden = jax.nn.silu(normed @ layer["gate"]) * (normed @ layer["up"])
        x = x + hidden @ layer["down"]
        activations |= {f"normed {k}": normed, f"hidden {k}": hidden, f"residual {k}": x}
    logits = norm(x, 1.0) @ parameters["head"]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return losses.mean(), activations


def attention(x, layer):
    """Causal attention with `HEADS` heads."""
    heads = (x @ layer["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, WIDTH // HEADS)
    out = jax.nn.dot_product_attention(*jnp.moveaxis(heads, 2, 0), is_causal=True)
    return out.reshape(x.shape) @ layer["out"]


def norm(x, gain):
    """Root mean square norm."""
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * gain


if __name__ == "__main__":
    main()
