"""How a run went, in one table for people or one object for machines."""

from rich.table import Table

from zipjax.train.loop import Outcome
from zipjax.train.traffic import Sent


def summary(outcome: Outcome, *, tokens_per_step: int) -> dict:
    """The figures of the closing table, as plain JSON values.

    Args:
        outcome: of the run.
        tokens_per_step: bytes of text per step.
    """
    validated = [r["validation_loss"] for r in outcome.records if "validation_loss" in r]
    steps = outcome.last_step - outcome.first_step
    return {
        "steps": [outcome.first_step, outcome.last_step],
        "first_loss": outcome.records[0]["loss"] if outcome.records else None,
        "last_loss": outcome.records[-1]["loss"] if outcome.records else None,
        "validation_loss": validated[-1] if validated else None,
        "wire": {
            axis: {"raw_nbytes": round(sent.raw_nbytes), "sent_nbytes": round(sent.sent_nbytes)}
            for axis, sent in outcome.sent.items()
        },
        "fallbacks": outcome.num_fallbacks,
        "digest": outcome.digest,
        "tokens_per_s": round(steps * tokens_per_step / outcome.step_s, 1) if steps else None,
        "compile_s": round(outcome.compile_s, 2),
        "step_s": round(outcome.step_s, 2),
        "total_s": round(outcome.total_s, 2),
        "interrupted": bool(outcome.signal),
    }


def closing_table(outcome: Outcome, *, tokens_per_step: int) -> Table:
    """The same for people."""
    figures = summary(outcome, tokens_per_step=tokens_per_step)
    table = Table(show_header=False, title=_title(outcome), title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    for name, key in (
        ("first loss", "first_loss"),
        ("last loss", "last_loss"),
        ("validation loss", "validation_loss"),
    ):
        value = figures[key]
        table.add_row(f"{name}, nats/byte", "-" if value is None else f"{value:.4f}")
    table.add_section()
    for axis, sent in outcome.sent.items():
        table.add_row(f"sent over {axis}", _bytes(sent))
    table.add_row("sent in all", _bytes(sum(outcome.sent.values(), Sent())))
    table.add_row("messages that went raw", f"{outcome.num_fallbacks:,}")
    table.add_section()
    speed = figures["tokens_per_s"]
    table.add_row("tokens/s", "-" if speed is None else f"{speed:,.0f}")
    table.add_row("compiling", f"{outcome.compile_s:.1f} s")
    table.add_row("in all", f"{outcome.total_s:.1f} s")
    table.add_row("digest of the state", outcome.digest)
    return table


def _title(outcome: Outcome) -> str:
    ended = "Interrupted after" if outcome.signal else "Trained"
    since = f" (from {outcome.first_step})" if outcome.first_step else ""
    return f"{ended} {outcome.last_step} steps{since}"


def _bytes(sent: Sent) -> str:
    kept = f"{-sent.saved_share:+.1%}" if sent.raw_nbytes else "-"
    return f"{sent.raw_nbytes / 1e6:,.1f} MB raw, {sent.sent_nbytes / 1e6:,.1f} MB sent ({kept})"
