"""The training loop: steps, looks at the validation text, checkpoints."""

import time
from dataclasses import dataclass

import jax
from jax.sharding import Mesh

from parallel import record_fallbacks, wire_report
from zipjax.train.batches import Batches, place_batch
from zipjax.train.checkpoints import Checkpoints
from zipjax.train.config import TrainConfig
from zipjax.train.digest import digest_state
from zipjax.train.evaluate import make_evaluate
from zipjax.train.interrupts import Interrupts
from zipjax.train.layout import check_layout
from zipjax.train.metrics import MetricsFile
from zipjax.train.optimizer import learning_rate
from zipjax.train.options import RunOptions
from zipjax.train.progress import make_reporter
from zipjax.train.state import TrainState, init_state
from zipjax.train.step import make_train_step
from zipjax.train.text import Text
from zipjax.train.traffic import Sent, Traffic

# Reading the traffic waits for the devices, so it is not read at every step.
READ_TRAFFIC_EVERY = 10


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run came to.

    Attributes:
        state: after the last step.
        digest: of the state, see `digest_state`.
        first_step: steps done when this session began; 0 unless resumed.
        last_step: steps done now.
        records: metrics of every step, of earlier sessions too.
        sent: bytes by mesh axis, of this session's steps on all devices.
        num_fallbacks: messages of this process's devices that went raw after all.
        compile_s: seconds until the first step could start.
        step_s: seconds in steps.
        total_s: seconds in all.
        signal: that ended the run early; 0 if none did.
    """

    state: TrainState
    digest: str
    first_step: int
    last_step: int
    records: list[dict]
    sent: dict[str, Sent]
    num_fallbacks: int
    compile_s: float
    step_s: float
    total_s: float
    signal: int


def train(config: TrainConfig, text: Text, mesh: Mesh, options: RunOptions) -> Outcome:
    """Train, from the start or from a checkpoint, to the end or to an interruption.

    Args:
        config: what to compute.
        text: what to learn from.
        mesh: from `make_train_mesh`.
        options: what to keep and to say.

    Raises:
        ArgumentError: when text, mesh or checkpoint do not go with the config.
    """
    check_layout(mesh, batch=config.batch, num_experts=config.model.num_experts)
    return _Run(config, text, mesh, options).run()


class _Run:
    """The state of one call of `train`."""

    def __init__(self, config: TrainConfig, text: Text, mesh: Mesh, options: RunOptions):
        self.started = time.perf_counter()
        self.config, self.mesh, self.options = config, mesh, options
        self.batches = Batches(text, config)
        self.rate = learning_rate(config.optimizer, steps=config.steps)
        self.checkpoints = None
        if options.out is not None:
            folder = options.out / "checkpoints"
            self.checkpoints = Checkpoints(
                folder, config, mesh, text_digest=text.digest, resume=options.resume
            )
        self.first, self.state = self._begin()
        self.done = self.first
        self.last = min(config.steps, options.stop_after or config.steps)
        is_first_process = jax.process_index() == 0
        path = options.out / "metrics.jsonl" if options.out and is_first_process else None
        self.metrics = MetricsFile(path, after_step=self.first)
        self.reporter = make_reporter(
            first=self.first, steps=config.steps, silent=options.quiet or not is_first_process
        )
        self.step_s = 0.0

    def _begin(self) -> tuple[int, TrainState]:
        """Steps done and the state after them."""
        if self.checkpoints is None or not self.options.resume:
            return 0, init_state(self.config, self.mesh)
        step, state, position = self.checkpoints.restore()
        assert position == self.batches.position(step), (position, step)
        return step, state

    def run(self) -> Outcome:
        """Do what is left to do, and put things away whatever happens."""
        try:
            with Interrupts() as interrupts:
                return self._run(interrupts)
        finally:
            self.reporter.close()
            self.metrics.close()
            if self.checkpoints is not None:
                self.checkpoints.close()

    def _run(self, interrupts: Interrupts) -> Outcome:
        self._compile()
        compile_s = time.perf_counter() - self.started
        signal = 0
        while self.done < self.last and not signal:
            self._step()
            signal = interrupts.wish(self.done)
            if self.done % self.options.save_every == 0:
                self._save()
        self._save()
        return Outcome(
            state=self.state,
            digest=digest_state(self.state),
            first_step=self.first,
            last_step=self.done,
            records=self.metrics.records,
            sent=self.traffic.by_axis(),
            num_fallbacks=self.traffic.num_fallbacks(),
            compile_s=compile_s,
            step_s=self.step_s,
            total_s=time.perf_counter() - self.started,
            signal=signal if self.done < self.last else 0,
        )

    def _compile(self) -> None:
        """Compile both programs; only the training step's traffic is counted."""
        tokens = place_batch(self.batches.train(self.done), self.mesh)
        evaluate = make_evaluate(self.config, self.mesh)
        self.evaluate = evaluate.lower(self.state.params, tokens).compile()
        with record_fallbacks() as fallbacks:
            traced = make_train_step(self.config, self.mesh).trace(self.state, tokens)
            self.train_step = traced.lower().compile()
        self.traffic = Traffic(wire_report(traced), fallbacks, self.mesh)

    def _step(self) -> None:
        """One step, and its record."""
        begun = time.perf_counter()
        tokens = place_batch(self.batches.train(self.done), self.mesh)
        self.state, metrics = self.train_step(self.state, tokens)
        # Reading the metrics waits for the step. On a CPU that is needed: the devices of several
        # steps in flight can take all of XLA's threads and wait for each other for ever.
        figures = {name: float(value) for name, value in metrics._asdict().items()}
        taken_s = time.perf_counter() - begun
        self.step_s += taken_s
        self.done += 1
        self.traffic.add_step(figures["extra_rounds"])
        tokens_per_s = self.config.batch * self.config.length / taken_s
        record = {"step": self.done, **figures, "tokens_per_s": round(tokens_per_s, 1)}
        record["learning_rate"] = float(self.rate(self.done - 1))
        if self.done % READ_TRAFFIC_EVERY == 0 or self.done == self.last:
            total = self.traffic.total()
            record |= {"raw_nbytes": total.raw_nbytes, "sent_nbytes": total.sent_nbytes}
        if self.done % self.config.eval_every == 0 or self.done == self.config.steps:
            record["validation_loss"] = self._validate()
        self.metrics.add(record)
        self.reporter.update(self.done, _line(self.metrics.records))

    def _validate(self) -> float:
        batches = (place_batch(rows, self.mesh) for rows in self.batches.validation())
        losses = [float(self.evaluate(self.state.params, batch)) for batch in batches]
        return sum(losses) / len(losses)

    def _save(self) -> None:
        if self.checkpoints is not None:
            self.checkpoints.save(self.done, self.state, self.batches.position(self.done))


def _line(records: list[dict]) -> str:
    """The newest figures in few words."""
    newest = records[-1]
    line = f"loss {newest['loss']:.3f}"
    validated = [record["validation_loss"] for record in records if "validation_loss" in record]
    if validated:
        line += f" · validation {validated[-1]:.3f}"
    line += f" · {newest['tokens_per_s']:,.0f} tokens/s"
    read = [record for record in records[-READ_TRAFFIC_EVERY:] if "raw_nbytes" in record]
    if read:
        saved = read[-1]["raw_nbytes"] - read[-1]["sent_nbytes"]
        line += f" · {saved / 1e6:,.0f} MB saved on the wire"
    return line
