"""Reads from a traced program what it sends: `wire_report`.

Counting while tracing would be wrong twice over: JAX traces some code more often than it runs
(a function, then its forward rule) and some less often (the body of a scan). The finished program
holds each collective exactly as often as it runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

from parallel.wire.link_share import exchange_share, gather_share, permute_share, reduce_share
from parallel.wire.report import WireReport, WireRow
from parallel.wire.site import Site

# JAX's names for the primitives behind lax.psum, lax.pmax and so on, by how they move bytes.
_REDUCE = frozenset({"psum", "psum_invariant", "pmax", "pmin"})
_GATHER = frozenset({"all_gather", "all_gather_invariant", "all_gather_reduced"})
_EXCHANGE = frozenset({"all_to_all", "reduce_scatter"})


def wire_report(program: Any) -> WireReport:
    """Report what one run of a program sends, by call site and mesh axis.

    Collectives called through `jax.lax` are listed too, as sent raw. Of the two branches of a
    `lax.cond` the one that sends more counts.

    Args:
        program: what `jax.jit(f).trace(*args)` or `jax.make_jaxpr(f)(*args)` returns.

    Returns:
        The report, with raw and sent bytes per device.
    """
    rows = _Rows()
    _walk(_jaxpr(program), _Place(), rows)
    return rows.report()


@dataclass(frozen=True)
class _Place:
    """Where in the program we are.

    `counts` says what a collective found here adds to: both figures, or one of them inside the
    two branches of a transport.
    """

    site: Site | None = None
    axis_sizes: dict[str, int] = field(default_factory=dict)
    times: int = 1
    in_while: bool = False
    counts: Literal["both", "raw", "sent"] = "both"


class _Rows:
    """Sums by (site, axis, in_while)."""

    def __init__(self):
        self._sums: dict[tuple, list[float]] = {}

    def add(self, place: _Place, site: Site, axis: tuple[str, ...], nbytes: float) -> None:
        messages = 0 if place.counts == "raw" else place.times
        raw = 0 if place.counts == "sent" else nbytes * place.times
        sent = 0 if place.counts == "raw" else nbytes * place.times
        self._merge((site, axis, place.in_while), (messages, raw, sent))

    def merge(self, other: "_Rows") -> None:
        for key, amounts in other._sums.items():
            self._merge(key, amounts)

    def sent_nbytes(self) -> float:
        return sum(sent for _, _, sent in self._sums.values())

    def report(self) -> WireReport:
        rows = (
            WireRow(
                site=site,
                axis=axis,
                num_messages=int(messages),
                raw_nbytes=raw,
                sent_nbytes=sent,
                in_while=in_while,
            )
            for (site, axis, in_while), (messages, raw, sent) in self._sums.items()
        )
        return WireReport(tuple(sorted(rows, key=lambda row: (-row.raw_nbytes, str(row.site)))))

    def _merge(self, key: tuple, amounts: Sequence[float]) -> None:
        sums = self._sums.setdefault(key, [0, 0, 0])
        for idx, amount in enumerate(amounts):
            sums[idx] += amount


def _walk(jaxpr: Any, place: _Place, rows: _Rows) -> None:
    """Add every collective of `jaxpr` and of the programs inside its equations."""
    for eqn in jaxpr.eqns:
        here = replace(place, site=Site.parse(str(eqn.source_info.name_stack)) or place.site)
        name, params = eqn.primitive.name, eqn.params
        if name == "cond":
            _walk_branches(params["branches"], here, rows)
            continue
        if name in _REDUCE | _GATHER | _EXCHANGE | {"ppermute"}:
            _add_collective(eqn, here, rows)
        elif name == "scan":
            here = replace(here, times=here.times * params["length"])
        elif name == "while":
            here = replace(here, in_while=True)
        elif name == "shard_map":
            here = replace(here, axis_sizes=here.axis_sizes | dict(params["mesh"].shape))
        for inner in _inner_jaxprs(params):
            _walk(inner, here, rows)


def _walk_branches(branches: tuple, place: _Place, rows: _Rows) -> None:
    """A transport's cond is (coded, raw); of any other, the branch that sends most counts."""
    if place.site is not None:
        coded, raw = branches
        _walk(_jaxpr(coded), replace(place, counts="sent"), rows)
        _walk(_jaxpr(raw), replace(place, counts="raw"), rows)
        return
    candidates = []
    for branch in branches:
        candidates.append(_Rows())
        _walk(_jaxpr(branch), place, candidates[-1])
    rows.merge(max(candidates, key=_Rows.sent_nbytes))


def _add_collective(eqn: Any, place: _Place, rows: _Rows) -> None:
    name, params = eqn.primitive.name, eqn.params
    axis = params["axes"] if "axes" in params else params["axis_name"]
    # Under vmap a psum also names array dimensions, by number; those send nothing.
    axis = tuple(a for a in (axis if isinstance(axis, tuple) else (axis,)) if a in place.axis_sizes)
    if not axis:
        return
    num_ranks = prod(place.axis_sizes[a] for a in axis)
    operand_nbytes = sum(prod(v.aval.shape) * v.aval.dtype.itemsize for v in eqn.invars)
    if name == "pmax" and place.site is not None:
        # The overflow flag: no part of the raw collective.
        place = replace(place, counts="sent")
    site = place.site or Site(f"lax.{name}", "")
    rows.add(place, site, axis, operand_nbytes * _share(name, num_ranks, params))


def _share(name: str, num_ranks: int, params: dict[str, Any]) -> float:
    if name in _GATHER:
        return gather_share(num_ranks)
    if name in _EXCHANGE:
        return exchange_share(num_ranks)
    if name in _REDUCE:
        return reduce_share(num_ranks)
    return permute_share(num_ranks, params["perm"])


def _inner_jaxprs(params: dict[str, Any]) -> Iterator:
    """The programs among an equation's parameters, alone or in tuples."""
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if hasattr(item, "eqns") or hasattr(item, "jaxpr"):
                yield _jaxpr(item)


def _jaxpr(program: Any) -> Any:
    """Unwrap what holds a jaxpr; which types do differs by version."""
    while not hasattr(program, "eqns"):
        program = program.jaxpr
    return program
