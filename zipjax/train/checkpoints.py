"""Save and restore a run through Orbax, so that it goes on bit for bit."""

import shutil
from pathlib import Path
from typing import Any

import jax
from jax.experimental import multihost_utils
from jax.sharding import Mesh
from orbax.checkpoint import v1 as ocp

from pallas_kernels import ArgumentError, ChecksumError, FormatError
from zipjax.train.config import TrainConfig
from zipjax.train.digest import digest_state
from zipjax.train.layout import shardings
from zipjax.train.state import TrainState, abstract_state, state_specs

KEEP = 2  # checkpoints
FIX = "pass the options of the run that wrote it, or another --out, or leave --resume away"


class Checkpoints:
    """The checkpoints of one run.

    Beside the state they keep its digest, the config, the digest of the text and the position in
    it. A run that would not go on as it began is refused, and so is a state with a wrong bit.
    """

    def __init__(
        self, folder: Path, config: TrainConfig, mesh: Mesh, *, text_digest: str, resume: bool
    ):
        """Open the folder, which need not exist.

        Args:
            folder: where the checkpoints are.
            config: of the run.
            mesh: that it runs on.
            text_digest: of the text it learns from.
            resume: go on with what is there; otherwise it is set aside as "FOLDER.previous".

        Raises:
            ArgumentError: when there is nothing to go on with.
        """
        if not resume:
            _set_aside(folder)
        elif not folder.is_dir():
            raise _nothing_to_resume(folder)
        self._mesh = mesh
        self._config = config
        self._identity = {"config": config.to_json(), "text": text_digest}
        self._checkpointer = ocp.training.Checkpointer(
            folder.absolute(),
            preservation_policy=ocp.training.preservation_policies.LatestN(KEEP),
        )

    def save(self, step: int, state: TrainState, position: dict) -> None:
        """Write a checkpoint, and return when it is whole.

        Args:
            step: steps done.
            state: after them.
            position: in the text, from `Batches.position`.
        """
        if self.latest == step:
            return
        metadata = self._identity | {"position": position, "digest": digest_state(state)}
        self._checkpointer.save(step, _named(state), custom_metadata=metadata)

    @property
    def latest(self) -> int | None:
        """Steps done at the newest checkpoint; None where there is none."""
        newest = self._checkpointer.latest
        return None if newest is None else newest.step

    def restore(self) -> tuple[int, TrainState, dict]:
        """Read the newest checkpoint.

        Returns:
            Steps done, the state after them, spread over the mesh, and the position in the text.

        Raises:
            ArgumentError: when there is none, or it is of another run.
            FormatError: when it is damaged; ChecksumError when only its bits show it.
        """
        step = self.latest
        if step is None:
            raise _nothing_to_resume(Path(self._checkpointer.directory))
        metadata = self._checkpointer.metadata(step).custom_metadata
        if not isinstance(metadata, dict) or not {"config", "text", "position", "digest"} <= set(
            metadata
        ):
            raise FormatError("the checkpoint must be one of a training run", got=f"step {step}")
        _check_same_run(metadata, self._identity)
        abstract = abstract_state(self._config)
        places = shardings(self._mesh, state_specs(self._config))
        abstract = jax.tree.map(
            lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
            abstract,
            places,
        )
        leaves = self._load(step, _named(abstract))
        state = jax.tree.unflatten(
            jax.tree.structure(abstract), [leaves[name] for name in _named(abstract)]
        )
        if digest_state(state) != metadata["digest"]:
            raise ChecksumError(
                f"the checkpoint of step {step} must hold what was saved",
                got=f"other bits: it was damaged in {self._checkpointer.directory}",
                fix=self._way_out(step),
            )
        return step, state, metadata["position"]

    def _load(self, step: int, named: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._checkpointer.load(step, named)
        except Exception as error:  # whatever the storage below Orbax raises, groups included
            raise FormatError(
                f"the checkpoint of step {step} must be whole",
                got=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                fix=self._way_out(step),
            ) from error

    def _way_out(self, step: int) -> str:
        return f"move its folder {step} away to resume from the one before"

    def close(self) -> None:
        """Wait for what is being written, and close."""
        self._checkpointer.close()


def _nothing_to_resume(folder: Path) -> ArgumentError:
    return ArgumentError(
        "there must be a checkpoint to resume from",
        got=f"none in {folder}",
        fix="leave --resume away to start anew",
    )


def _set_aside(folder: Path) -> None:
    """Rename a folder of an earlier run; one that was set aside before gives way."""
    if jax.process_index() == 0 and folder.exists():
        previous = folder.with_name(folder.name + ".previous")
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices("checkpoints set aside")


def _named(state: Any) -> dict[str, Any]:
    """Leaves by path: names outlive the classes that hold them."""
    leaves, _ = jax.tree.flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def _check_same_run(stored: dict, ours: dict) -> None:
    """Refuse other text, or any other setting than the codec, which changes no bit."""
    if stored["text"] != ours["text"]:
        raise ArgumentError(
            "the text must be the one that the checkpoint was trained on",
            got=f"digest {ours['text'][:8]} instead of {stored['text'][:8]}",
            fix=FIX,
        )
    theirs, mine = _flat(stored["config"]), _flat(ours["config"])
    differing = [
        f"{name}={mine.get(name)} instead of {theirs.get(name)}"
        for name in sorted(theirs.keys() | mine.keys())
        if name != "codec" and theirs.get(name) != mine.get(name)
    ]
    if differing:
        raise ArgumentError(
            "the settings must be those of the checkpoint", got=", ".join(differing), fix=FIX
        )


def _flat(tree: dict, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat
