"""How much room the exponent code needs for what a training step sends: real tensors, by code.

Trains the model of `examples/train_moe.py` and, after some steps, repeats a step's forward and
backward pass on one device to see what each rank would send: tokens to the experts and back
(bfloat16), their gradients, and the gradients of parameters (float32). For a grid of codes: bits an
element without the far list, the worst share of elements that need it, and bits with a list as
long as that. `zipjax.train.codes` is chosen from this table.

    python benchmarks/training_codes.py [--quick] [--json FILE] [--strict]
"""

import sys
from collections.abc import Iterator
from functools import partial

import harness
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.flatten_util import ravel_pytree

from pallas_kernels import ExponentConfig, exponent_encode
from parallel import moe
from zipjax.nn import ExpertParam
from zipjax.train import TrainConfig, make_train_mesh, read_text, set_up_devices
from zipjax.train.batches import Batches, place_batch
from zipjax.train.codes import ACTIVATIONS, GRADIENTS
from zipjax.train.state import init_state, split_model
from zipjax.train.step import make_train_step

NUM_RANKS = 8
EXPERT_RANKS, DATA_RANKS = 4, 2
NO_LIST = 1 << 30  # so many elements an entry: the list is as short as it gets
FAR_BITS = 40
GRID = [(3, slots, run) for run in (512, 64, 32) for slots in (8, 16)]
GRID += [(4, slots, run) for run in (256, 128, 64, 32) for slots in (4, 8)]
Parts = dict[str, list[np.ndarray]]


def main() -> int:
    """Train, look, tabulate."""
    args = harness.arguments(__doc__.splitlines()[0]).parse_args()
    set_up_devices()
    config = TrainConfig(codec=None)
    stops, grid = ((2,), GRID[:1]) if args.quick else ((20, 60, 150), GRID)
    seen = [messages(config, params, batch) for params, batch in trained(config, stops)]
    rows = [row(name, seen, code) for name in seen[0] for code in codes(name, grid)]
    columns = {
        "message": "",
        "code": "",
        "bits": ".2f",
        "far per 1000": ".2f",
        "bits with far": ".2f",
    }
    title = f"Bits an element of what a step sends, worst of steps {', '.join(map(str, stops))}"
    bars = [] if args.quick else [bar for name in seen[0] for bar in chosen_bars(name, seen)]
    return harness.report(title, columns, rows, bars, ("zipjax", "jax", "flax"), args)


def trained(config: TrainConfig, stops: tuple[int, ...]) -> Iterator[tuple[nnx.State, np.ndarray]]:
    """Parameters at some steps, on the host, and the batch that comes next."""
    mesh = make_train_mesh(config.model.num_experts)
    batches, state = Batches(read_text(None), config), init_state(config, mesh)
    step = make_train_step(config, mesh)
    for done in range(1, max(stops) + 1):
        state, _ = step(state, place_batch(batches.train(done - 1), mesh))
        jax.block_until_ready(state)  # steps in flight at once can starve XLA's CPU threads
        if done in stops:
            yield jax.device_get(state.params), batches.train(done)


def messages(config: TrainConfig, params: nnx.State, batch: np.ndarray) -> Parts:
    """What ranks would send, by kind: one array for each rank that is sent to."""
    ranks = np.split(batch.astype(np.int32), NUM_RANKS)
    schedule = moe.default_schedule(
        ranks[0][:, 1:].size, config.model.num_selected, config.model.num_experts
    )
    shape = (config.model.num_experts, schedule.first, config.model.width)
    layers = config.model.num_layers
    probes = jnp.zeros((layers, 2, *shape), jnp.bfloat16)
    graphdef, _ = split_model(config)
    loss = partial(probed_loss, graphdef, schedule=schedule)
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    found: Parts = {}
    grads = []
    for rank in ranks[:EXPERT_RANKS]:
        (_, sent), (grad, back) = gradient(params, probes, rank)
        grads.append(grad)
        for way, name in enumerate(("tokens out", "rows back")):
            for kind, tensor in ((name, sent[:, way]), (f"gradient of {name}", back[:, way])):
                found.setdefault(kind, []).extend(
                    np.split(np.asarray(tensor), EXPERT_RANKS, axis=1)
                )
    _, shared = nnx.split_state(grads[0], ExpertParam, ...)
    experts, _ = nnx.split_state(jax.tree.map(lambda *g: sum(g), *grads), ExpertParam, ...)
    mine = jax.tree.map(lambda leaf: leaf[:, : leaf.shape[1] // EXPERT_RANKS], experts)
    found["gradient of shared parameters"] = _parts(shared, NUM_RANKS)
    found["gradient of experts"] = _parts(mine, DATA_RANKS)
    # One layer of tokens is one message.
    return {
        name: [one for x in arrays for one in (x if x.ndim == 4 else x[None])]
        for name, arrays in found.items()
    }


def probed_loss(graphdef, params, probes, tokens, *, schedule):
    """The step's loss on one device; gradients of the probes are what travels backward."""
    model = nnx.merge(graphdef, params)
    blocks, layers = nnx.split(model.blocks)
    x, sent = model.embed.embedding[...][tokens[:, :-1]], []
    for layer, (out_probe, back_probe) in enumerate(probes):
        block = nnx.merge(blocks, jax.tree.map(lambda leaf, layer=layer: leaf[layer], layers))
        x = x + block.attention(block.attention_norm(x))
        rows = block.moe_norm(x).reshape(-1, x.shape[-1])
        routing = moe.route(block.moe.router(rows), num_selected=block.moe.num_selected)
        queues = moe.line_up(routing.expert_idx, num_experts=len(out_probe))
        out, handle = moe.dispatch(rows, queues, capacity=schedule.first)
        out = out + out_probe
        back = block.moe.experts(out).astype(jnp.bfloat16) + back_probe
        sent.append(jnp.stack([out, back]))
        x = x + moe.combine(moe.collect(back, handle), routing.weights).reshape(x.shape)
    logits = model.norm(x) @ model.embed.embedding[...].T
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return losses.mean() / NUM_RANKS, jnp.stack(sent)


def codes(name: str, grid: list[tuple[int, int, int]]) -> list[ExponentConfig]:
    """The grid, with the code in use last."""
    tried = [
        ExponentConfig(code_bits=bits, num_slots=slots, elems_per_far=NO_LIST, max_run_elems=run)
        for bits, slots, run in grid
    ]
    return [*tried, code_in_use(name)]


def code_in_use(name: str) -> ExponentConfig:
    """What the trainer sends this kind of message with."""
    return GRADIENTS if name.endswith(("parameters", "experts")) else ACTIVATIONS


def row(name: str, seen: list[Parts], code: ExponentConfig) -> dict:
    """One line of the table."""
    far, bits = far_share(name, seen, code), static_bits(seen[0][name][0], code)
    chosen = code == code_in_use(name)
    knobs = f"bits={code.code_bits} C={code.num_slots} L={code.max_run_elems}"
    return {
        "message": name,
        "code": knobs + (" (in use)" if chosen else ""),
        "bits": bits,
        "far per 1000": 1000 * far,
        "bits with far": bits if chosen else bits + FAR_BITS * far,
    }


def chosen_bars(name: str, seen: list[Parts]) -> list[harness.Bar]:
    """The list in use is long enough once the first steps are over."""
    code = code_in_use(name)
    far = far_share(name, seen[1:], code)
    return [harness.Bar(f"far per 1000, {name}", 1000 * far, "<=", 1000 / code.elems_per_far)]


def far_share(name: str, seen: list[Parts], code: ExponentConfig) -> float:
    """The worst share of elements that need the far list."""
    arrays = [array for parts in seen for array in parts[name]]
    return max(int(_num_far(array, code)) / array.size for array in arrays)


def static_bits(array: np.ndarray, code: ExponentConfig) -> float:
    """Bits an element of a payload."""
    payload = jax.eval_shape(lambda x: exponent_encode(x, code), array)
    return 8 * payload.nbytes / array.size


def _parts(tree: nnx.State, num_parts: int) -> list[np.ndarray]:
    """A flat gradient in the parts that a sum sends; padding of the last one is left out."""
    flat = np.asarray(ravel_pytree(tree)[0])
    return np.array_split(flat, num_parts)


@partial(jax.jit, static_argnums=1)
def _num_far(x: jax.Array, code: ExponentConfig) -> jax.Array:
    return exponent_encode(x, code).num_far


if __name__ == "__main__":
    sys.exit(main())
