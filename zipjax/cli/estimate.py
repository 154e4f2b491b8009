"""`zipjax estimate`: what a model takes, and whether it fits, before it is loaded."""

import os
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.table import Table

from pallas_kernels import ArgumentError
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk, nbytes_text
from zipjax.dryrun import Topology, parse_topology
from zipjax.models import FormEstimate, ModelEstimate, estimate_model


@dataclass(frozen=True, kw_only=True)
class Estimate(TalkOptions):
    """Say what a model takes, raw and compressed, from its headers alone.

    A model that does not fit even compressed fails (1).
    """

    source: tyro.conf.Positional[Path]
    """The folder of a model, compressed or not."""
    topology: str | None = None
    """GPUs to spread it over, such as h200, h200:8 or h200:2x8; by default this machine's
    memory."""
    experts: int = 1
    """Groups of GPUs that experts are spread over; the rest cuts heads and hidden elements."""
    tokens: int = 0
    """Tokens that the cache has room for, over all sequences."""
    ignored_fields: tuple[str, ...] = ()
    """Fields of config.json that zipjax does not know and that change no numbers."""

    def run(self) -> bool:
        """Print the table; False where nothing fits."""
        talk = Talk(self)
        if self.tokens < 0:
            raise ArgumentError("--tokens must be at least 0", got=self.tokens)
        topology = None if self.topology is None else parse_topology(self.topology)
        num_gpus = 1 if topology is None else topology.num_gpus
        if self.experts < 1 or num_gpus % self.experts:
            raise ArgumentError(f"--experts must divide the {num_gpus} devices", got=self.experts)
        estimate = estimate_model(
            self.source,
            num_tensor=num_gpus // self.experts,
            num_expert=self.experts,
            num_cached_tokens=self.tokens,
            ignored_fields=self.ignored_fields,
        )
        has_nbytes = _host_nbytes() if topology is None else topology.gpu.memory_nbytes
        forms = [estimate.plain, estimate.compressed]
        need = {form.name: _need_nbytes(form, topology) for form in forms}
        fits = {name: nbytes <= has_nbytes for name, nbytes in need.items()}
        talk.table(_table(estimate, need, fits))
        talk.data(
            estimate.to_json()
            | {"device_has_nbytes": has_nbytes, "need_nbytes": need, "fits": fits}
        )
        where = "this machine" if topology is None else f"each of {topology}"
        for form in forms:
            talk.summary(_verdict(form.name, need[form.name], has_nbytes, where))
        return fits["compressed"]


def _need_nbytes(form: FormEstimate, topology: Topology | None) -> int:
    """What one device must have: where it is this machine, loading needs its memory too."""
    if topology is not None:
        return form.running_nbytes
    return max(form.running_nbytes, form.nbytes + form.host_loading_nbytes)


def _table(estimate: ModelEstimate, need: dict[str, int], fits: dict[str, bool]) -> Table:
    about = "" if estimate.exact else " (expected)"
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{estimate.config.architecture}, {estimate.num_params:,} parameters")
    for name in ("parameters", "per device", "cache", "loading, host", "needed", "fits"):
        table.add_column(name, justify="right")
    for form in (estimate.plain, estimate.compressed):
        table.add_row(
            form.name + (about if form is estimate.compressed else ""),
            nbytes_text(form.nbytes),
            nbytes_text(form.device_nbytes),
            nbytes_text(estimate.cache_nbytes),
            f"+{nbytes_text(form.host_loading_nbytes)}",
            nbytes_text(need[form.name]),
            "yes" if fits[form.name] else "no",
        )
    return table


def _verdict(name: str, need_nbytes: int, has_nbytes: int, where: str) -> str:
    needed, has = nbytes_text(need_nbytes), nbytes_text(has_nbytes)
    if need_nbytes <= has_nbytes:
        return f"{name}: {needed} of the {has} of {where}"
    missing = nbytes_text(need_nbytes - has_nbytes)
    return f"{name}: does not fit: {needed} needed, {has} in {where}, {missing} missing"


def _host_nbytes() -> int:
    """Memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
