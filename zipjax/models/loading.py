"""Load a model from its folder, tensor by tensor."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import DTypeLike

from pallas_kernels import FormatError, dtype_name
from zipjax.array import decompress
from zipjax.compression.rules import find_rule, parse_rules, require_all_used
from zipjax.files.checksum import tensor_digest
from zipjax.files.model_folder import ModelFolder, open_model_folder
from zipjax.files.tensor_source import TensorSource
from zipjax.models.causal_config import CausalConfig
from zipjax.models.causal_lm import CausalLM, abstract_model
from zipjax.models.feed_forward import keep_experts_apart
from zipjax.models.filling import fill_compressed, fill_plain, is_compressible
from zipjax.models.fitting import require_fit
from zipjax.models.hf_config import config_from_hf
from zipjax.models.hf_names import Slot, is_tied_copy, slots_of
from zipjax.models.placement import Placement

OnBytes = Callable[[int], None]


def load_model(
    folder: str | os.PathLike[str],
    *,
    compressed: bool | None = None,
    rules: Mapping[str, str] | None = None,
    mesh: Mesh | None = None,
    tensor_axis: str = "tensor",
    expert_axis: str = "expert",
    dtype: DTypeLike | None = None,
    ignored_fields: tuple[str, ...] = (),
    on_bytes: OnBytes | None = None,
) -> CausalLM:
    """Load a Hugging Face folder, or one that `zipjax compress` wrote.

    Parameters have the dtype and bits of the file. Tensors are read one at a time, and compressed
    ones never stand beside the whole plain model: besides what the model itself takes, memory for
    about twice the largest parameter is used.

    Args:
        folder: `config.json` and the weights, as `.safetensors` or `.zipj` files.
        compressed: whether the matrices stay compressed in memory and are decoded when they are
            used, with the same results, bit for bit; by default as they are in the folder.
        rules: which layers are compressed, as for `compress_model`.
        mesh: devices to spread the model over; by default it lives on the default device.
        tensor_axis: mesh axis that cuts heads and hidden elements, where the mesh has it.
        expert_axis: mesh axis that spreads experts, where the mesh has it.
        dtype: dtype of the computation; by default that of `config.json`.
        ignored_fields: fields of `config.json` that zipjax does not know and that change nothing.
        on_bytes: called after each parameter with its uncompressed bytes.

    Raises:
        ArgumentError: there is no model, a rule matches nothing, or the mesh has neither axis.
        FormatError: tensors are missing, unexpected, of another shape, or damaged; names them.
        UnsupportedError: an architecture or an option that zipjax does not run; names the field.
    """
    opened = open_model_folder(folder)
    config = read_config(opened, dtype=dtype, ignored_fields=ignored_fields)
    placement = None
    if mesh is not None:
        placement = Placement(mesh=mesh, tensor_axis=tensor_axis, expert_axis=expert_axis)
    model, sources = abstract_model(config), opened.tensors()
    slots = slots_of(model)
    require_fit(slots, sources, config)
    chosen: set[Slot] = set()
    if opened.is_compressed if compressed is None else compressed:
        chosen = _chosen(model, slots, rules)
    for slot in slots:
        sharding = None if placement is None else placement.sharding(slot)
        if slot not in chosen or not fill_compressed(model, slot, sources, sharding):
            fill_plain(model, slot, sources, sharding)
        if on_bytes is not None:
            on_bytes(sum(sources[name].nbytes for name in slot.names))
    _require_tied(sources, config)
    if placement is not None and placement.spreads_experts:
        keep_experts_apart(model)
    return model


def read_config(
    folder: ModelFolder,
    *,
    dtype: DTypeLike | None = None,
    ignored_fields: tuple[str, ...] = (),
) -> CausalConfig:
    """The configuration of a folder's model; see `load_model`."""
    config = config_from_hf(folder.config(), ignored_fields=ignored_fields)
    return config if dtype is None else replace(config, dtype=dtype_name(jnp.dtype(dtype)))


def _chosen(model: CausalLM, slots: list[Slot], rules: Mapping[str, str] | None) -> set[Slot]:
    """The parameters to compress: those that can be, and that no rule leaves."""
    parsed = parse_rules(rules)
    paths = {slot: ".".join(map(str, slot.path)) for slot in slots}
    layers = {slot: ".".join(map(str, slot.path[:-1])) for slot in slots}
    require_all_used(parsed, [*paths.values(), *layers.values()])
    chosen = set()
    for slot in slots:
        rule = find_rule(parsed, layers[slot], paths[slot])
        if is_compressible(model, slot) and (rule is None or rule.action != "leave"):
            chosen.add(slot)
    return chosen


def _require_tied(sources: Mapping[str, TensorSource], config: CausalConfig) -> None:
    """Refuse a model whose output matrix must be its embedding, and is stored as another."""
    for name in sources:
        if not is_tied_copy(name, config):
            continue
        digests = {
            tensor_digest(np.asarray(decompress(sources[same].read())))
            for same in (name, "model.embed_tokens.weight")
        }
        if len(digests) > 1:
            raise FormatError(
                f"{name} must equal the embedding, for tie_word_embeddings is true",
                got="other bits",
                fix="set tie_word_embeddings to false in config.json if they differ on purpose",
            )
