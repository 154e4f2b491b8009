"""Machine files: a machine as JSON text, and back, refusing what is not one."""

import json
from dataclasses import asdict
from typing import Any

from pallas_kernels import ArgumentError, FormatError
from parallel.planner.cost import Line, cost_from_json, cost_to_json
from parallel.planner.machine import CodecRate, Kernels, Link, Machine
from parallel.planner.simulate import Contention

VERSION = 1
_KEYS = {"version", "name", "num_intra", "inter", "intra", "kernels", "sources"}
_OPTIONAL = {"codec", "contention"}


def machine_to_json(machine: Machine) -> str:
    """The text of a machine file."""
    value: dict[str, Any] = {
        "version": VERSION,
        "name": machine.name,
        "num_intra": machine.num_intra,
        "inter": _link_to_json(machine.inter),
        "intra": _link_to_json(machine.intra),
        "kernels": _kernels_to_json(machine.kernels),
        "sources": dict(machine.sources),
    }
    if machine.codec is not None:
        value["codec"] = asdict(machine.codec)
    if machine.contention:
        value["contention"] = [asdict(entry) for entry in machine.contention]
    return json.dumps(value, indent=1) + "\n"


def machine_from_json(text: str) -> Machine:
    """The machine of a file's text.

    Raises:
        FormatError: it is no machine file, one of another version, or its figures cannot be meant.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise FormatError("a machine file must be JSON", got=str(error)) from None
    if not isinstance(value, dict) or value.get("version") != VERSION:
        got = value.get("version") if isinstance(value, dict) else value
        raise FormatError(f"a machine file must have version {VERSION}", got=repr(got)[:100])
    _require_keys(value, _KEYS, _OPTIONAL, "a machine file")
    try:
        return Machine(
            name=str(value["name"]),
            inter=_link_from_json(value["inter"]),
            intra=_link_from_json(value["intra"]),
            num_intra=int(value["num_intra"]),
            kernels=_kernels_from_json(value["kernels"]),
            sources={str(key): str(text) for key, text in value["sources"].items()},
            codec=CodecRate(**value["codec"]) if "codec" in value else None,
            contention=tuple(Contention(**entry) for entry in value.get("contention", ())),
        )
    except FormatError:
        raise
    except (ArgumentError, TypeError, ValueError, AttributeError) as error:
        raise FormatError("a machine file must describe a machine", got=str(error)) from error


def _require_keys(value: dict, keys: set[str], optional: set[str], what: str) -> None:
    wrong = sorted((keys - set(value)) | (set(value) - keys - optional))
    if wrong:
        raise FormatError(f"{what} needs exactly the keys {', '.join(sorted(keys))}", got=wrong)


def _link_to_json(link: Link) -> dict[str, Any]:
    return {
        "latency_s": link.latency_s,
        "s_per_byte": link.s_per_byte,
        "fits": {name: cost_to_json(cost) for name, cost in link.fits.items()},
    }


def _link_from_json(value: dict) -> Link:
    _require_keys(value, {"latency_s", "s_per_byte", "fits"}, set(), "a link")
    fits = {str(name): cost_from_json(cost) for name, cost in value["fits"].items()}
    return Link(
        latency_s=float(value["latency_s"]), s_per_byte=float(value["s_per_byte"]), fits=fits
    )


def _kernels_to_json(kernels: Kernels) -> dict[str, Any]:
    value = asdict(kernels)
    value["matmul"] = cost_to_json(kernels.matmul) if kernels.matmul else None
    return value


def _kernels_from_json(value: dict) -> Kernels:
    keys = {"flops_per_s", "bytes_per_s", "launch_s", "matmul"}
    _require_keys(value, keys, set(), "kernels")
    matmul = None if value["matmul"] is None else cost_from_json(value["matmul"])
    if not (matmul is None or isinstance(matmul, Line)):
        raise FormatError("the measured cost of a matrix product must be a line", got=matmul)
    rates = {key: float(value[key]) for key in keys - {"matmul"}}
    return Kernels(**rates, matmul=matmul)
