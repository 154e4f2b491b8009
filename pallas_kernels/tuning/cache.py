"""Settings that were measured: a JSON file for each kind of device, read only when asked.

The file is made from measurements and can be made again. So one that cannot be read is passed over
with a `TuningCacheWarning`, and saving replaces it.
"""

import dataclasses
import json
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

from pallas_kernels.errors import FormatError
from pallas_kernels.tuning.config import DecodeMatmulConfig, MatmulShape

VERSION = 1
DIRECTORY_VARIABLE = "ZIPJAX_TUNING_DIR"


class TuningCacheWarning(UserWarning):
    """A file of measured settings cannot be read and is passed over."""


@dataclasses.dataclass
class TuningCache:
    """Measured settings on one kind of device.

    Attributes:
        device_kind: JAX's name of it, as `device.device_kind`.
        configs: settings by `MatmulShape.key`.
    """

    device_kind: str
    configs: dict[str, DecodeMatmulConfig] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, device_kind: str, directory: Path | None = None) -> "TuningCache":
        """What is stored for a kind of device; nothing where no file is, or none that can be read.

        Args:
            device_kind: JAX's name.
            directory: where to look; `default_directory()` if None.

        Warns:
            TuningCacheWarning: there is a file, but it cannot be read.
        """
        path = _path(device_kind, directory)
        try:
            return cls(device_kind, _parse(path.read_text("utf-8"), device_kind))
        except FileNotFoundError:
            return cls(device_kind)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            warnings.warn(
                f"{path} holds no settings of this version and is passed over: {error}; "
                "`zipjax bench kernels --tune` writes it again",
                TuningCacheWarning,
                stacklevel=2,
            )
            return cls(device_kind)

    def save(self, directory: Path | None = None) -> Path:
        """Write all settings, aside and renamed, over what was there.

        Args:
            directory: where to; `default_directory()` if None. Made if it is missing.

        Returns:
            path: the file.
        """
        path = _path(self.device_kind, directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "version": VERSION,
            "device_kind": self.device_kind,
            "decode_matmul": {
                key: dataclasses.asdict(config) for key, config in sorted(self.configs.items())
            },
        }
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8"
        ) as aside:
            try:
                json.dump(content, aside, indent=1)
                aside.flush()
                os.fsync(aside.fileno())
                os.replace(aside.name, path)
            except BaseException:
                os.unlink(aside.name)
                raise
        return path

    def get(self, shape: MatmulShape) -> DecodeMatmulConfig | None:
        """The measured settings of a product, if there are any."""
        return self.configs.get(shape.key)


def default_directory() -> Path:
    """`$ZIPJAX_TUNING_DIR`, else `zipjax/tuning` in the user's cache (XDG base directories)."""
    if os.environ.get(DIRECTORY_VARIABLE):
        return Path(os.environ[DIRECTORY_VARIABLE])
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a path that is not absolute.
    base = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"
    return base / "zipjax" / "tuning"


def _path(device_kind: str, directory: Path | None) -> Path:
    name = re.sub(r"[^A-Za-z0-9]+", "-", device_kind).strip("-").lower() or "device"
    return (default_directory() if directory is None else directory) / f"{name}.json"


def _parse(text: str, device_kind: str) -> dict[str, DecodeMatmulConfig]:
    content: dict[str, Any] = json.loads(text)
    if content["version"] != VERSION or content["device_kind"] != device_kind:
        raise FormatError(
            f"it must be of version {VERSION} and for {device_kind}",
            got=f"version {content['version']} for {content['device_kind']}",
        )
    return {key: DecodeMatmulConfig(**fields) for key, fields in content["decode_matmul"].items()}
