"""Which tensors of a checkpoint fill which parameter of a `CausalLM`."""

import re
from dataclasses import dataclass

from flax import nnx

from zipjax.models.causal_config import CausalConfig, GroupedConfig
from zipjax.models.causal_lm import CausalLM

_LEAVES = {"kernel": "weight", "scale": "weight", "embedding": "weight", "bias": "bias"}
_EXPERTS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
_MIXTRAL_EXPERTS = {"gate": "w1", "up": "w3", "down": "w2"}


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One parameter and where its values come from.

    Attributes:
        path: keys from the model to the parameter, layer numbers among them.
        shape: its shape.
        names: the tensor that fills it, or one for each expert along its first axis.
        transposed: whether a matrix stands as [out, in] in the checkpoint, [in, out] in the model.
        stacked: whether the first axis counts experts.
    """

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...]
    transposed: bool = False
    stacked: bool = False

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape that each tensor must have."""
        shape = self.shape[1:] if self.stacked else self.shape
        return shape[::-1] if self.transposed else shape


def slots_of(model: CausalLM) -> list[Slot]:
    """A slot for every parameter of a model, abstract or not, in the order of its layers.

    Layers in order, so that a loader walks through a checkpoint from its beginning to its end.
    """
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    slots = [_slot(path, param.shape, model.config) for path, param in flat]
    return sorted(slots, key=lambda slot: _order(slot.path))


def is_unused(name: str, config: CausalConfig) -> bool:
    """Whether a tensor of a checkpoint belongs to nothing that is run here.

    Layers beyond the last are those that predict several tokens at once (DeepSeek-V3), and old
    checkpoints hold the wavelengths of the rotary embedding. A tied model may still bring its
    output matrix: see `is_tied_copy`.
    """
    if name.endswith(".rotary_emb.inv_freq"):
        return True
    layer = re.match(r"model\.layers\.(\d+)\.", name)
    beyond = layer is not None and int(layer.group(1)) >= config.num_layers
    return beyond and not isinstance(config.attention, GroupedConfig)


def is_tied_copy(name: str, config: CausalConfig) -> bool:
    """Whether a tensor repeats the embedding of a model whose output matrix is that."""
    return config.tied and name == "lm_head.weight"


def _slot(path: tuple[str | int, ...], shape: tuple[int, ...], config: CausalConfig) -> Slot:
    *parents, leaf = path
    module = ".".join(str(key) for key in parents)
    module = module if module.startswith("lm_head") else f"model.{module}"
    if parents[-1] == "experts":
        names = _expert_names(module, str(leaf), shape[0], config)
        return Slot(path=path, shape=shape, names=names, transposed=True, stacked=True)
    if leaf == "e_score_correction_bias":
        return Slot(path=path, shape=shape, names=(f"{module}.gate.{leaf}",))
    if config.architecture == "mixtral":
        module = module.replace(".mlp", ".block_sparse_moe")
    name = f"{module}.{_LEAVES[str(leaf)]}"
    return Slot(path=path, shape=shape, names=(name,), transposed=leaf == "kernel")


def _expert_names(
    module: str, leaf: str, num_experts: int, config: CausalConfig
) -> tuple[str, ...]:
    names = _EXPERTS
    if config.architecture == "mixtral":
        module, names = module.replace(".mlp", ".block_sparse_moe"), _MIXTRAL_EXPERTS
    return tuple(f"{module}.{idx}.{names[leaf]}.weight" for idx in range(num_experts))


def _order(path: tuple[str | int, ...]) -> tuple:
    first = {"embed_tokens": 0, "layers": 1, "norm": 2, "lm_head": 3}[str(path[0])]
    layer_idx = path[1] if path[0] == "layers" else 0
    return first, layer_idx, [str(key) for key in path]
