"""A `config.json` whose every field is either understood or refused by name."""

from collections.abc import Mapping
from typing import Any

from pallas_kernels import FormatError, UnsupportedError
from zipjax.files.wording import shown

# What changes no number of a forward pass without dropout.
_HARMLESS = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _name_or_path architectures
    attention_dropout attn_implementation auto_map aux_loss_alpha bos_token_id
    chunk_size_feed_forward eos_token_id ep_size id2label initializer_range is_decoder
    is_encoder_decoder keys_to_ignore_at_inference label2id max_length model_type num_labels
    num_mtp_layers num_nextn_predict_layers output_attentions output_hidden_states
    output_router_logits pad_token_id pretraining_tp problem_type return_dict
    router_aux_loss_coef router_jitter_noise sep_token_id seq_aux transformers_version
    unsloth_version use_cache
    """.split()
)


class Fields:
    """The fields of a JSON object, which notes those that were asked for."""

    def __init__(self, values: Mapping[str, Any], *, what: str = "config.json"):
        """Read `values`, called `what` in errors."""
        self._values = dict(values)
        self._asked: set[str] = set()
        self.what = what

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; without a default it must be there."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, "an integer", value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """An integer or a fraction."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number", value)
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value

    def optional_integer(self, name: str, default: int | None = None) -> int | None:
        """An integer or null; the default where the field is missing altogether."""
        self._asked.add(name)
        if name not in self._values:
            return default
        return None if self._values[name] is None else self.integer(name)

    def object(self, name: str) -> dict[str, Any] | None:
        """An object, or None where it is missing or null."""
        self._asked.add(name)
        value = self._values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return value

    def items(self, name: str) -> list[Any]:
        """A list, empty where it is missing or null."""
        self._asked.add(name)
        value = self._values.get(name)
        if value is not None and not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return value or []

    def require(self, name: str, *allowed: Any) -> None:
        """Refuse a field that is there with another value than one of `allowed`, or null."""
        self._asked.add(name)
        value = self._values.get(name)
        if value is not None and value not in allowed:
            wanted = " or ".join(shown(choice) for choice in allowed) or "absent"
            raise UnsupportedError(f"{name} in {self.what} must be {wanted}", got=shown(value))

    def require_no_more(self, ignored: tuple[str, ...] = ()) -> None:
        """Refuse fields that nobody asked for and that might change the numbers."""
        known = self._asked | _HARMLESS | set(ignored)
        unknown = sorted(
            name for name, value in self._values.items() if name not in known and value is not None
        )
        if unknown:
            raise UnsupportedError(
                f"every field of {self.what} must be one that zipjax knows",
                got=", ".join(shown(name) for name in unknown),
                fix="if they change no numbers, pass them as ignored_fields",
            )

    def _get(self, name: str, default: Any) -> Any:
        self._asked.add(name)
        value = self._values.get(name)
        if value is None:
            value = default
        if value is None:
            raise FormatError(f"{self.what} must have the field {name}")
        return value

    def _wrong(self, name: str, wanted: str, value: Any) -> FormatError:
        return FormatError(f"{name} in {self.what} must be {wanted}", got=shown(value))
