"""Load a model from its folder, tensor by tensor."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import DTypeLike

from pallas_kernels import FormatError, dtype_name
from zipjax.array import decompress
from zipjax.files.checksum import tensor_digest
from zipjax.files.model_folder import ModelFolder, open_model_folder
from zipjax.files.tensor_source import TensorSource
from zipjax.models.causal_config import CausalConfig
from zipjax.models.causal_lm import CausalLM, abstract_model
from zipjax.models.fitting import require_fit
from zipjax.models.hf_config import config_from_hf
from zipjax.models.hf_names import Slot, is_tied_copy, slots_of

OnBytes = Callable[[int], None]


def load_model(
    folder: str | os.PathLike[str],
    *,
    dtype: DTypeLike | None = None,
    ignored_fields: tuple[str, ...] = (),
    on_bytes: OnBytes | None = None,
) -> CausalLM:
    """Load a Hugging Face folder, or one that `zipjax compress` wrote.

    Parameters have the dtype and bits of the file. Tensors are read one at a time: besides the
    parameters themselves, memory for about twice the largest of them is used.

    Args:
        folder: `config.json` and the weights, as `.safetensors` or `.zipj` files.
        dtype: dtype of the computation; by default that of `config.json`.
        ignored_fields: fields of `config.json` that zipjax does not know and that change nothing.
        on_bytes: called after each tensor with its uncompressed bytes.

    Raises:
        ArgumentError: there is no model.
        FormatError: tensors are missing, unexpected, of another shape, or damaged; names them.
        UnsupportedError: an architecture or an option that zipjax does not run; names the field.
    """
    opened = open_model_folder(folder)
    config = read_config(opened, dtype=dtype, ignored_fields=ignored_fields)
    model, sources = abstract_model(config), opened.tensors()
    slots = slots_of(model)
    require_fit(slots, sources, config)
    for slot in slots:
        set_param(model, slot, jnp.asarray(read_param(slot, sources)))
        if on_bytes is not None:
            on_bytes(sum(sources[name].nbytes for name in slot.names))
    require_tied(sources, config)
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


def read_param(slot: Slot, sources: Mapping[str, TensorSource]) -> np.ndarray:
    """The values of one parameter, in the dtype of the file, its experts stacked."""
    if not slot.stacked:
        return np.ascontiguousarray(_read(sources[slot.names[0]], slot))
    dtypes = {sources[name].dtype for name in slot.names}
    if len(dtypes) > 1:
        raise FormatError(
            "the experts of a layer must have one dtype",
            got=f"{', '.join(sorted(map(dtype_name, dtypes)))} in {slot.names[0]} and its kind",
        )
    stack = np.empty(slot.shape, dtypes.pop())
    for idx, name in enumerate(slot.names):
        stack[idx] = _read(sources[name], slot)
    return stack


def set_param(model: CausalLM, slot: Slot, value: jax.Array) -> None:
    """Put `value` where the model has an abstract parameter."""
    module: Any = model
    for key in slot.path[:-1]:
        module = module[key] if isinstance(key, int) else getattr(module, key)
    leaf = str(slot.path[-1])
    variable: nnx.Param = getattr(module, leaf)
    setattr(module, leaf, type(variable)(value))


def require_tied(sources: Mapping[str, TensorSource], config: CausalConfig) -> None:
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
                fix="set tie_word_embeddings to false in config.json if the two differ on purpose",
            )


def _read(source: TensorSource, slot: Slot) -> np.ndarray:
    x = np.asarray(decompress(source.read()))
    return x.T if slot.transposed else x
