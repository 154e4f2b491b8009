"""What becomes of each file of a folder: weights are converted, the rest is copied."""

import os
from dataclasses import dataclass
from pathlib import Path

from pallas_kernels import ArgumentError, FormatError
from zipjax.files.model_folder import CONFIG_NAME
from zipjax.files.tensor_file import CONTAINER_SUFFIX
from zipjax.files.wording import shown

WEIGHTS_SUFFIX = ".safetensors"
# The same weights once more, in forms that hold code or that nothing here reads.
_OTHER_WEIGHTS = frozenset(".bin .pt .pth .ckpt .h5 .msgpack .onnx .gguf .tflite .pkl".split())


@dataclass(frozen=True, kw_only=True)
class FolderPlan:
    """The files of a folder, by paths relative to it.

    Attributes:
        source: the folder.
        weights: files to convert.
        copied: files to copy; the configuration is the last, for it makes a folder a model.
        left_out: files and folders that are neither.
    """

    source: Path
    weights: tuple[Path, ...]
    copied: tuple[Path, ...]
    left_out: tuple[Path, ...]

    def target_of(self, path: Path) -> Path:
        """What a file of weights is called in the other form."""
        other = {WEIGHTS_SUFFIX: CONTAINER_SUFFIX, CONTAINER_SUFFIX: WEIGHTS_SUFFIX}
        return path.with_suffix(other[path.suffix.lower()])


def plan_folder(source: Path, *, suffix: str) -> FolderPlan:
    """Look through a folder and those in it; links to files are followed, hidden files left out.

    Args:
        source: the folder.
        suffix: of the weights to convert, ".safetensors" or ".zipj".

    Raises:
        ArgumentError: there are no such weights.
        FormatError: two files would get one name.
    """
    if not source.is_dir():
        raise ArgumentError(f"{source} must be a folder", fix="give the folder of a model")
    weights, copied, left_out = [], [], []
    for folder, names, files in os.walk(source):
        hidden = [name for name in names if name.startswith(".")]
        left_out += [Path(folder, name) for name in hidden]
        names[:] = sorted(name for name in names if name not in hidden)
        for path in sorted(Path(folder, name) for name in files):
            if path.suffix.lower() == suffix:
                weights.append(path)
            elif path.name.startswith(".") or path.suffix.lower() in _OTHER_WEIGHTS:
                left_out.append(path)
            else:
                copied.append(path)
    if not weights:
        raise ArgumentError(f"{source} must hold {suffix} files", fix="give the folder of a model")
    copied.sort(key=lambda path: path.name == CONFIG_NAME)
    plan = FolderPlan(
        source=source,
        weights=_relative(weights, source),
        copied=_relative(copied, source),
        left_out=_relative(left_out, source),
    )
    _require_distinct(plan)
    return plan


def _relative(paths: list[Path], folder: Path) -> tuple[Path, ...]:
    return tuple(path.relative_to(folder) for path in paths)


def _require_distinct(plan: FolderPlan) -> None:
    """A folder with both forms of one file says the same thing twice, or two different ones."""
    clashes = {plan.target_of(path) for path in plan.weights} & set(plan.copied)
    if clashes:
        raise FormatError(
            f"{plan.source} must hold every file of weights in one form",
            got=shown(str(sorted(clashes)[0])),
            fix="remove one of the two forms",
        )
