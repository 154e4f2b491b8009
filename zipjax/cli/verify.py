"""`zipjax verify`: whether containers are whole, and what they were made from."""

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from pallas_kernels import ArgumentError
from zipjax.cli.folders import num_cores
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.files import Verification, inspect, verify
from zipjax.files.folder_conversion import compressed_files
from zipjax.files.folder_plan import WEIGHTS_SUFFIX


@dataclass(frozen=True, kw_only=True)
class Verify(TalkOptions):
    """Check every checksum, decompress every tensor and compare it with its digest.

    A damaged file is an error (2); a whole file that is not the one of --against fails (1).
    """

    source: tyro.conf.Positional[Path]
    """The .zipj file, or a folder that `zipjax compress` wrote."""
    against: Path | None = None
    """A .safetensors, .npz or .zipj file, or the folder that was compressed: compare every tensor
    with it, byte by byte."""

    def run(self) -> bool:
        """Verify and say so."""
        talk, start_s = Talk(self), time.perf_counter()
        pairs = self._pairs()
        results = []
        total_nbytes = sum(inspect(path).raw_nbytes for path, _ in pairs)
        with talk.progress("verifying", total_nbytes) as advance:
            for path, against in pairs:
                results.append(
                    verify(
                        path,
                        against=against,
                        on_tensor=lambda entry: advance(entry.raw_nbytes),
                        num_threads=num_cores(),
                    )
                )
        differences = [difference for result in results for difference in result.differences]
        talk.data(self._data(results))
        for difference in differences:
            talk.summary(difference)
        num_tensors = sum(len(result.summary.tensors) for result in results)
        files = f" in {len(pairs)} files" if self.source.is_dir() else ""
        equal = "" if self.against is None else f", {self._verdict(len(differences))}"
        talk.summary(
            f"Verified {num_tensors} tensors{files}, {nbytes_text(total_nbytes)}{equal}, "
            f"in {time.perf_counter() - start_s:.1f} s"
        )
        return not differences

    def _pairs(self) -> list[tuple[Path, Path | None]]:
        """Each container and what to compare it with."""
        if not self.source.is_dir():
            return [(self.source, self.against)]
        paths = compressed_files(self.source)
        if self.against is None:
            return [(path, None) for path in paths]
        if not self.against.is_dir():
            raise ArgumentError("a folder must be compared with a folder", got=self.against)
        originals = (self.against / path.relative_to(self.source) for path in paths)
        return [
            (path, original.with_suffix(WEIGHTS_SUFFIX))
            for path, original in zip(paths, originals, strict=True)
        ]

    def _data(self, results: list[Verification]) -> dict:
        files = [
            {"ok": result.ok, "differences": result.differences} | result.summary.to_json()
            for result in results
        ]
        if not self.source.is_dir():
            return files[0]
        return {"ok": all(result.ok for result in results), "files": files}

    def _verdict(self, num_different: int) -> str:
        if num_different:
            return f"{num_different} not as in {self.against}"
        return f"equal to {self.against}"
