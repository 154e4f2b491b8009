"""`zipjax plan`: the fastest schedule of a mixture-of-experts model on a machine."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from pallas_kernels import ArgumentError
from parallel.planner import (
    Machine,
    Plan,
    Problem,
    Workload,
    machine_from_json,
    machine_of,
    plan,
    plan_to_json,
    timeline_of,
)
from parallel.planner.workload import Layout, Mode
from zipjax.cli.gantt import draw_timeline
from zipjax.cli.options import TalkOptions
from zipjax.cli.talk import Talk
from zipjax.cli.targets import require_free
from zipjax.files.atomic import AtomicFile
from zipjax.files.model_folder import read_json
from zipjax.files.wording import shown
from zipjax.models import CausalConfig, GroupedConfig, SparseConfig, config_from_hf

# A whole model is a blur; the first layers show the schedule.
_NUM_LAYERS_DRAWN = 2


@dataclass(frozen=True, kw_only=True)
class PlanCommand(TalkOptions):
    """Compare the published schedules of mixtures of experts on a machine; take the fastest."""

    model: Path
    """A config.json of Hugging Face, or the folder that has it: Mixtral, Qwen3-MoE, DeepSeek-V3."""
    mesh: str
    """Nodes and devices of a node, such as 8x8."""
    machine: str
    """A machine file, or the name of a known machine: h100, h200, fsmoe-a, ethernet-1g, ..."""
    tokens: int = 8192
    """Tokens of a device in a step; with --layout replicated, of a node."""
    seq_len: int = 4096
    """Tokens of a sequence."""
    layout: Layout = "everywhere"
    """Experts everywhere; or each sharded over the devices of a node; or that, and tokens
    replicated over the node, as tensor parallelism leaves them."""
    mode: Mode = "train"
    """A training step, or the forward pass alone."""
    timeline: Path | None = None
    """Draw the first layers of the schedule there, as PNG."""
    trace: Path | None = None
    """Write the whole schedule there, for chrome://tracing or Perfetto."""
    plan: Path | None = None
    """Write the plan there, as JSON."""
    ignored_fields: tuple[str, ...] = ()
    """Fields of config.json that zipjax does not know and that change no numbers."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write over files that exist."""

    def run(self) -> bool:
        """Plan, explain, and write what was asked for."""
        talk = Talk(self)
        for target in (self.timeline, self.trace, self.plan):
            if target is not None:
                require_free(target, force=self.force)
        machine, workload = read_machine(self.machine), self._workload()
        found = plan(workload, machine)
        self._write(found, Problem(workload, machine))
        talk.text(found.explain())
        talk.data(json.loads(plan_to_json(found)))
        base = next(c.seconds for c in found.considered if c.strategy == "sequential")
        talk.summary(
            f"Planned {workload.num_layers} layers on {workload.num_devices} devices: "
            f"{found.chosen.strategy}, {found.seconds * 1e3:.1f} ms a step predicted, "
            f"{base / found.seconds:.2f}x as fast as the sequential schedule"
        )
        return True

    def _workload(self) -> Workload:
        path = self.model / "config.json" if self.model.is_dir() else self.model
        config = config_from_hf(read_json(path), ignored_fields=self.ignored_fields)
        num_inter, num_intra = parse_mesh(self.mesh)
        base = workload_of(config, num_inter=num_inter, num_intra=num_intra)
        return replace(
            base,
            num_tokens=self.tokens,
            seq_len=self.seq_len,
            layout=self.layout,
            mode=self.mode,
        )

    def _write(self, found: Plan, problem: Problem) -> None:
        if self.plan is not None:
            write(self.plan, plan_to_json(found).encode())
        if self.timeline is None and self.trace is None:
            return
        timeline = timeline_of(problem, found.chosen)
        if self.trace is not None:
            write(self.trace, timeline.chrome_trace().encode())
        if self.timeline is not None:
            end_s = found.seconds * min(1.0, _NUM_LAYERS_DRAWN / found.workload.num_layers)
            title = f"{found.chosen.strategy}: {found.chosen.reason}"
            write(self.timeline, draw_timeline(timeline, title=title, end_s=end_s))


def workload_of(config: CausalConfig, *, num_inter: int, num_intra: int) -> Workload:
    """The mixtures of a model and the attention before each; layers without experts are left out.

    Args:
        config: of the model.
        num_inter: nodes.
        num_intra: devices of a node.

    Raises:
        ArgumentError: it has no experts, or mixtures of several sizes.
    """
    sparse = [layer for layer in config.feed_forward if isinstance(layer, SparseConfig)]
    if len(set(sparse)) != 1:
        raise ArgumentError(
            "the model's mixtures must be of one size", got=f"{len(set(sparse))} kinds of mixtures"
        )
    attention = config.attention
    if isinstance(attention, GroupedConfig):
        num_kv_heads, head_dim = attention.num_kv_heads, attention.head_dim
    else:  # Latent attention: every head has keys and values of its own once they are expanded.
        num_kv_heads, head_dim = attention.num_heads, attention.nope_dim + attention.rope_dim
    return Workload(
        num_layers=len(sparse),
        num_tokens=1,
        seq_len=1,
        width=config.width,
        num_heads=attention.num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        num_experts=sparse[0].num_experts,
        num_selected=sparse[0].num_selected,
        expert_hidden=sparse[0].hidden,
        shared_hidden=sparse[0].shared_hidden,
        num_inter=num_inter,
        num_intra=num_intra,
    )


def parse_mesh(text: str) -> tuple[int, int]:
    """Nodes and devices of a node from "8x8".

    Raises:
        ArgumentError: it is not two positive integers.
    """
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ArgumentError("--mesh must be nodes x devices of a node, as 8x8", got=shown(text))
    return int(parts[0]), int(parts[1])


def read_machine(text: str) -> Machine:
    """A machine file, or a known machine by its name."""
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        return machine_from_json(path.read_text(encoding="utf-8"))
    return machine_of(text)


def write(target: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with AtomicFile(target) as file:
        file.write(data)
        file.commit()
