"""What a run has sent: raw and sent bytes by mesh axis, fallbacks included."""

from dataclasses import dataclass

from jax.sharding import Mesh

from parallel import Fallbacks, WireReport


@dataclass(frozen=True)
class Sent:
    """Bytes of all devices together.

    Attributes:
        raw_nbytes: what would have been sent without a codec.
        sent_nbytes: what was sent, fallbacks included.
    """

    raw_nbytes: float = 0.0
    sent_nbytes: float = 0.0

    @property
    def saved_share(self) -> float:
        """Share of the raw bytes that stayed at home; 0 where nothing travelled."""
        return 1 - self.sent_nbytes / self.raw_nbytes if self.raw_nbytes else 0.0

    def __add__(self, other: "Sent") -> "Sent":
        return Sent(self.raw_nbytes + other.raw_nbytes, self.sent_nbytes + other.sent_nbytes)


class Traffic:
    """Adds up what the steps of this session send.

    The program of a step says what it sends (`parallel.wire_report`), once for the first exchange
    of tokens and once for each further round; how many of those there were, the steps report.
    """

    def __init__(self, report: WireReport, fallbacks: Fallbacks, mesh: Mesh):
        """Start from nothing.

        Args:
            report: of one step.
            fallbacks: what counts the step's fallbacks.
            mesh: that the step runs on.
        """
        self._report = report
        self._fallbacks = fallbacks
        self._num_devices = mesh.size
        self._num_local_devices = mesh.local_mesh.size
        self._num_steps = 0
        self._extra_rounds = 0.0

    def add_step(self, extra_rounds: float) -> None:
        """Count one step, with the rounds beyond the first that it reported."""
        self._num_steps += 1
        self._extra_rounds += extra_rounds

    def by_axis(self) -> dict[str, Sent]:
        """Bytes sent so far over each mesh axis; waits for what runs."""
        extra = self._fallbacks.extra_nbytes_by_site()
        sums: dict[str, Sent] = {}
        for row in self._report.rows:
            times = self._num_devices * (self._extra_rounds if row.in_while else self._num_steps)
            # A site inside the loop over rounds shares its name, and its fallbacks, with the
            # first round: they are taken once.
            fallback = extra.pop(row.site, 0.0) * self._num_devices / self._num_local_devices
            sent = Sent(times * row.raw_nbytes, times * row.sent_nbytes + fallback)
            axis = ", ".join(row.axis)
            sums[axis] = sums.get(axis, Sent()) + sent
        return sums

    def total(self) -> Sent:
        """Bytes sent so far over all axes; waits for what runs."""
        return sum(self.by_axis().values(), Sent())

    def num_fallbacks(self) -> int:
        """Messages of a device that went raw since their payload did not hold them."""
        return sum(self._fallbacks.counts().values())
