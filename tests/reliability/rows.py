"""Every kind of attack with its counts: quick ones for each test run, long ones for the record."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.reliability import canary, faults, forgeries, fuzz, memory, mutations, samples, streams
from tests.reliability.golden import golden_containers
from tests.reliability.samples import FLOAT_DTYPES
from tests.reliability.tally import Tally

SMALL_NBYTES_MAX = 6000


@dataclass(frozen=True)
class Row:
    """A kind of attack.

    Attributes:
        name: what the tests call it.
        number: its row.
        run: makes the attack; given how many cases, where that can be chosen.
        num_quick: cases in each test run, or at least as many where they are all there are.
        num_long: cases for the record.
    """

    name: str
    number: int
    run: Callable[[int], Tally]
    num_quick: int
    num_long: int


def _all(run: Callable[[], Tally]) -> Callable[[int], Tally]:
    """For attacks that have no count: all cases are always made."""
    return lambda count: run()


def _container(sample: Callable[[], bytes]) -> Callable[[int], Tally]:
    return lambda count: mutations.random_mutations(sample(), count)


def _streams(dtype: str) -> Callable[[int], Tally]:
    return lambda count: streams.random_streams(dtype, count)


def _guards(dtype: str) -> Callable[[int], Tally]:
    return lambda count: streams.guarded_streams(dtype, count)


def _forgeries(number: int, kind: str, forge: Callable[[], forgeries.Forgeries]) -> Callable:
    return lambda count: forgeries.all_refused(number, kind, forge())


def _flips(count: int) -> Tally:
    """All small files in a quick run, whole golden files in a long one."""
    tally = Tally(2, "every single-bit flip")
    for data in _files(count):
        tally.add(mutations.bit_flips(data))
    return tally.done()


def _truncations(count: int) -> Tally:
    tally = Tally(3, "every truncation, and appended junk of 1 to 64 bytes")
    for data in _files(count):
        tally.add(mutations.truncations(data))
    return tally.done()


def _files(count: int) -> list[bytes]:
    files = [samples.raw_sample(), samples.coded_sample(), *golden_containers()]
    return [data for data in files if count > _FLIPS_QUICK or len(data) <= SMALL_NBYTES_MAX]


_FLIPS_QUICK = 50_000

ROWS = (
    Row("raw container", 1, _container(samples.raw_sample), 50_000, 5_000_000),
    Row("coded container", 1, _container(samples.coded_sample), 50_000, 5_000_000),
    *(
        Row(f"streams {name}", 1, _streams(name), 20_000, 2_000_000)
        for name in samples.FLOAT_DTYPES
    ),
    Row("bit flips", 2, _flips, _FLIPS_QUICK, 100_000),
    Row("truncations", 3, _truncations, 5_000, 10_000),
    *(Row(f"guards {dtype}", 4, _guards(dtype), 40, 4_000) for dtype in FLOAT_DTYPES),
    Row("index", 5, fuzz.fuzz_index, 10_000, 2_000_000),
    Row("index text", 5, fuzz.fuzz_index_text, 10_000, 2_000_000),
    Row("safetensors", 5, fuzz.fuzz_safetensors, 2_000, 500_000),
    Row("npz", 5, fuzz.fuzz_npz, 2_000, 500_000),
    Row("canaries", 6, _all(canary.canaries), 5, 5),
    Row("sizes", 7, _forgeries(7, "sizes", forgeries.hostile_sizes), 40, 40),
    Row("memory", 7, _all(memory.refused_before_allocation), 80, 80),
    Row("ranges", 8, _forgeries(8, "ranges", forgeries.hostile_ranges), 12, 12),
    Row("duplicates", 9, _forgeries(9, "duplicates", forgeries.hostile_duplicates), 8, 8),
    Row("names", 10, _forgeries(10, "names", forgeries.hostile_names), 16, 16),
    Row("json", 11, _forgeries(11, "deep and huge JSON", forgeries.hostile_json), 8, 8),
    Row("unknown", 12, _forgeries(12, "unknown values", forgeries.unknown_values), 36, 36),
    Row("patches", 13, _all(streams.hostile_streams), 60, 60),
    Row("faults", 15, _all(faults.failing_saves), 200, 200),
)
