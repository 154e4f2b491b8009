"""What a model takes, before it is loaded: from `config.json` and headers alone."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jax.sharding import AbstractMesh, AxisType, Mesh

from pallas_kernels import ArgumentError, dtype_name
from zipjax.files.inspection import inspect
from zipjax.files.model_folder import ModelFolder, open_model_folder
from zipjax.files.tensor_source import TensorSource
from zipjax.models.cache import cache_nbytes
from zipjax.models.causal_config import CausalConfig
from zipjax.models.causal_lm import CausalLM, abstract_model
from zipjax.models.filling import is_compressible
from zipjax.models.fitting import require_fit
from zipjax.models.hf_names import Slot, slots_of
from zipjax.models.loading import read_config
from zipjax.models.placement import Placement

# Bits of a compressed element where nothing has been compressed yet: three for the code, those of
# the remainder, and 0.35 for patches, as in the least regular weights of docs/performance.md.
_PATCH_BITS = 0.35
_BITS = {"bfloat16": 11 + _PATCH_BITS, "float16": 14 + _PATCH_BITS, "float32": 27 + _PATCH_BITS}
# A parameter is read in the order of the file and then turned round.
_NUM_COPIES_LOADING = 2


@dataclass(frozen=True, kw_only=True)
class FormEstimate:
    """What a model takes in one form.

    Attributes:
        name: "plain" or "compressed".
        nbytes: all parameters.
        device_nbytes: the parameters of one device.
        running_nbytes: that, the cache, and the largest decoded matrix where matrices are decoded:
            what one device must have at least.
        host_loading_nbytes: host memory while loading, beyond what the model itself takes.
    """

    name: str
    nbytes: int
    device_nbytes: int
    running_nbytes: int
    host_loading_nbytes: int


@dataclass(frozen=True, kw_only=True)
class ModelEstimate:
    """What a model takes.

    Attributes:
        config: what it is.
        num_params: elements of all parameters.
        exact: whether the compressed sizes are those of files and not expected ones.
        num_devices: devices of the mesh.
        cache_nbytes: bytes of the cache.
        plain: with plain parameters.
        compressed: with compressed matrices.
    """

    config: CausalConfig
    num_params: int
    exact: bool
    num_devices: int
    cache_nbytes: int
    plain: FormEstimate
    compressed: FormEstimate

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON can hold them."""
        return {
            "architecture": self.config.architecture,
            "num_params": self.num_params,
            "exact": self.exact,
            "num_devices": self.num_devices,
            "cache_nbytes": self.cache_nbytes,
            "plain": vars(self.plain),
            "compressed": vars(self.compressed),
        }


def estimate_model(
    folder: str | os.PathLike[str],
    *,
    num_tensor: int = 1,
    num_expert: int = 1,
    num_cached_tokens: int = 0,
    ignored_fields: tuple[str, ...] = (),
) -> ModelEstimate:
    """Say what a folder's model takes, plain and compressed; reads no tensor.

    Args:
        folder: as for `load_model`. The compressed sizes are exact where it is compressed.
        num_tensor: devices that cut heads and hidden elements.
        num_expert: groups of devices that experts are spread over.
        num_cached_tokens: tokens that the cache has room for, over all sequences.
        ignored_fields: as for `load_model`.

    Raises:
        ArgumentError: no model, or a number of devices below 1.
        FormatError: the tensors are not those of the model.
        UnsupportedError: an architecture or option that zipjax does not run.
    """
    placement = Placement(mesh=_mesh(num_tensor, num_expert))
    opened = open_model_folder(folder)
    config = read_config(opened, ignored_fields=ignored_fields)
    model, sources = abstract_model(config), opened.tensors()
    slots = slots_of(model)
    require_fit(slots, sources, config)
    stored = _stored_nbytes(opened)
    plain = {slot: sum(sources[name].nbytes for name in slot.names) for slot in slots}
    compressed = {
        slot: _compressed_nbytes(model, slot, sources, stored, plain[slot]) for slot in slots
    }
    cached = cache_nbytes(config, num_cached_tokens)
    largest = max(source.nbytes for source in sources.values())
    decoded = max(placement.part_nbytes(slot, plain[slot]) for slot in slots)
    loading = _NUM_COPIES_LOADING * largest
    return ModelEstimate(
        config=config,
        num_params=sum(math.prod(slot.shape) for slot in slots),
        exact=bool(stored),
        num_devices=num_tensor * num_expert,
        cache_nbytes=cached,
        plain=_form("plain", plain, placement, cached, loading),
        compressed=_form("compressed", compressed, placement, cached + decoded, loading),
    )


def _mesh(num_tensor: int, num_expert: int) -> Mesh:
    if min(num_tensor, num_expert) < 1:
        raise ArgumentError(
            "there must be at least one device", got=f"{num_tensor=}, {num_expert=}"
        )
    auto = (AxisType.Auto, AxisType.Auto)
    # Only names and sizes of its axes are asked for.
    return AbstractMesh((num_expert, num_tensor), ("expert", "tensor"), axis_types=auto)  # type: ignore[return-value]


def _form(
    name: str,
    nbytes_of: Mapping[Slot, int],
    placement: Placement,
    more_nbytes: int,
    loading_nbytes: int,
) -> FormEstimate:
    on_device = sum(placement.part_nbytes(slot, nbytes) for slot, nbytes in nbytes_of.items())
    return FormEstimate(
        name=name,
        nbytes=sum(nbytes_of.values()),
        device_nbytes=on_device,
        running_nbytes=on_device + more_nbytes,
        host_loading_nbytes=loading_nbytes,
    )


def _stored_nbytes(folder: ModelFolder) -> dict[str, int]:
    """Bytes of every tensor as it is stored, by name; empty where nothing is compressed."""
    if not folder.is_compressed:
        return {}
    tensors = [tensor for shard in folder.shards for tensor in inspect(shard).tensors]
    stored = {tensor.name: tensor.nbytes for tensor in tensors}
    # In memory a tied tensor is as large as its twin, unless the model itself ties them.
    return {tensor.name: stored[tensor.same_as or tensor.name] for tensor in tensors}


def _compressed_nbytes(
    model: CausalLM,
    slot: Slot,
    sources: Mapping[str, TensorSource],
    stored: Mapping[str, int],
    plain_nbytes: int,
) -> int:
    if not is_compressible(model, slot):
        return plain_nbytes
    if stored:
        return sum(stored[name] for name in slot.names)
    dtype = sources[slot.names[0]].dtype
    return math.ceil(plain_nbytes * _BITS[dtype_name(dtype)] / (8 * dtype.itemsize))
