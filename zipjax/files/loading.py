"""Load tensors from a container, each when it is asked for."""

import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, overload

import numpy as np

from pallas_kernels import ArgumentError, CompressedTensor
from zipjax.array import decompress
from zipjax.files.container import Container, Verify, no_such_tensor
from zipjax.files.source import Access
from zipjax.files.tree import restore_like
from zipjax.files.wording import shown


class LoadedTensors(Mapping[str, np.ndarray]):
    """The tensors of an open container by name, in the order of the file.

    `tensors[name]` reads, checks and decompresses that tensor alone and gives a new array each
    time. The file stays open until `close`, the end of a `with` block, or garbage collection.
    """

    def __init__(self, container: Container, names: Iterable[str] | None = None):
        """Offer the tensors of `container` called `names`, or all of them."""
        self._container = container
        if isinstance(names, str):
            raise ArgumentError("names must be several names", got=shown(names), fix="use [name]")
        known = container.index.stored_names
        self._names = dict.fromkeys(known if names is None else names)
        for name in self._names:
            if name not in known:
                raise no_such_tensor(name, container.index)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(decompress(self.compressed(name)))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"LoadedTensors({len(self)} tensors of {self._container.name!r})"

    def __enter__(self) -> "LoadedTensors":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def metadata(self) -> Mapping[str, str]:
        """The texts kept with the tensors."""
        return dict(self._container.index.metadata)

    def compressed(self, name: str) -> CompressedTensor:
        """A tensor as it is stored, its streams in NumPy.

        Raises:
            KeyError: there is no such tensor.
            FormatError: it is damaged, or the file changed.
        """
        if name not in self._names:
            raise KeyError(str(no_such_tensor(name, self._container.index)))
        return self._container.compressed(name)

    def close(self) -> None:
        """Close the file; arrays that were read stay valid."""
        self._container.close()


@overload
def load(
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    like: None = None,
    verify: Verify = "once",
    access: Access = "read",
) -> LoadedTensors: ...
@overload
def load(
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    like: Any,
    verify: Verify = "once",
    access: Access = "read",
) -> Any: ...
def load(
    path: str | os.PathLike[str],
    *,
    names: Iterable[str] | None = None,
    like: Any = None,
    verify: Verify = "once",
    access: Access = "read",
) -> Any:
    """Open a container file.

    Only the index is read at first; a tensor costs its own bytes when it is asked for.

    Args:
        path: the file.
        names: the tensors to offer; all by default.
        like: a pytree of arrays, `jax.ShapeDtypeStruct`s or `CompressedTensor`s with the names,
            dtypes and shapes of the file: give back such a tree instead, read at once.
        verify: when to compare a chunk with its checksum: "once", at its first read; "always";
            "never".
        access: "read" copies what it reads; "map" maps the file into memory, so that
            `compressed` gives views of its pages. See docs/format.md, section 2.6.

    Returns:
        A mapping from name to array, or a tree like `like`: JAX arrays, with its sharding, where
        `like` has JAX arrays or structs, and NumPy arrays where it has those.

    Raises:
        ArgumentError: a name that the file does not have, or a tree that does not fit.
        FormatError: the file is foreign, damaged, truncated or of another version.
        OSError: the file cannot be read.
    """
    container = Container.open(path, verify=verify, access=access)
    try:
        tensors = LoadedTensors(container, names)
        if like is None:
            return tensors
        with tensors:
            return restore_like(like, set(tensors), tensors.__getitem__, tensors.compressed)
    except BaseException:
        container.close()
        raise
