"""Whether a checkpoint has the tensors that a model wants, said in one error if not."""

from collections.abc import Iterable, Mapping, Sequence

from pallas_kernels import FormatError, UnsupportedError, dtype_name
from zipjax.files.tensor_source import TensorSource
from zipjax.files.wording import shown
from zipjax.models.causal_config import CausalConfig
from zipjax.models.hf_names import Slot, is_tied_copy, is_unused

_DTYPES = ("bfloat16", "float16", "float32")
_SHOWN_MAX = 5


def require_fit(
    slots: Sequence[Slot], sources: Mapping[str, TensorSource], config: CausalConfig
) -> None:
    """Refuse a checkpoint that does not fill the model exactly.

    Raises:
        FormatError: tensors are missing, unexpected, or have another shape; names them.
        UnsupportedError: a parameter is stored as something else than a plain float.
    """
    wanted = {name: slot for slot in slots for name in slot.names}
    missing = [shown(name) for name in wanted if name not in sources]
    unexpected = [
        shown(name)
        for name in sources
        if name not in wanted and not is_unused(name, config) and not is_tied_copy(name, config)
    ]
    misshaped = [
        f"{shown(name)} is {list(sources[name].shape)} and must be {list(slot.tensor_shape)}"
        for name, slot in wanted.items()
        if name in sources and sources[name].shape != slot.tensor_shape
    ]
    parts = [*_part("missing", missing), *_part("unexpected", unexpected)]
    parts += _part("of another shape", misshaped)
    if parts:
        raise FormatError(
            f"the tensors must be those of a {config.architecture} model with "
            f"{config.num_layers} layers",
            got="; ".join(parts),
            fix="compare config.json with the weights",
        )
    _require_floats(wanted, sources)


def _require_floats(wanted: Iterable[str], sources: Mapping[str, TensorSource]) -> None:
    odd = [name for name in wanted if dtype_name(sources[name].dtype) not in _DTYPES]
    if odd:
        raise UnsupportedError(
            f"parameters must be {', '.join(_DTYPES)}",
            got=f"{dtype_name(sources[odd[0]].dtype)} of {shown(odd[0])}",
            fix="compress the folder as it is: any dtype can be stored, not every one be run",
        )


def _part(what: str, found: Sequence[str]) -> list[str]:
    if not found:
        return []
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    return [f"{len(found)} {what}: {', '.join(found[:_SHOWN_MAX])}{more}"]
