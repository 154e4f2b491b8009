"""Row 6: bugs planted in the reader, to prove that the attacks find bugs."""

from collections.abc import Callable
from unittest import mock

from tests.reliability import fuzz, mutations, samples
from tests.reliability.tally import Tally
from zipjax.files import container, parse_index, sizes

Canary = tuple[str, Callable[[], "mock._patch"], Callable[[], Tally]]


def _mutations() -> Tally:
    return mutations.random_mutations(samples.raw_sample(), 3000)


def _flips() -> Tally:
    return mutations.bit_flips(samples.raw_sample())


def _truncations() -> Tally:
    return mutations.truncations(samples.raw_sample())


def _fuzz() -> Tally:
    return fuzz.fuzz_index(3000)


# What is broken, how, and the attack that must see it.
CANARIES: tuple[Canary, ...] = (
    (
        "chunks are not compared with their checksums",
        lambda: mock.patch.object(container, "_require_checksums", lambda *args: None),
        _mutations,
    ),
    (
        "the index is not compared with its checksum",
        lambda: mock.patch.object(container, "checksum64", lambda data: mock.ANY),
        _flips,
    ),
    (
        "appended bytes are not noticed",
        lambda: mock.patch.object(container, "parse_header", _trusting(container.parse_header)),
        _truncations,
    ),
    (
        "sizes of streams are not compared with the codec's",
        lambda: mock.patch.object(parse_index, "_require_streams", lambda *args: None),
        _fuzz,
    ),
    (
        "a count may be anything",
        lambda: mock.patch.object(sizes, "checked_count", lambda value, where: value),
        _fuzz,
    ),
)


def canaries() -> Tally:
    """Plant every bug and attack; a case is refused when the attack sees the bug."""
    tally = Tally(6, "planted bugs")
    for what, plant, attack in CANARIES:
        tally.num_cases += 1
        with plant():
            found = attack()
        if found.wrong:
            tally.num_refused += 1
        else:
            tally.wrong.append(f"not found: {what}")
    return tally.done()


def _trusting(parse_header: Callable) -> Callable:
    """A reader that believes the header about the size of the file."""

    def parse(data: bytes, *, file_nbytes: int):
        declared = int.from_bytes(data[16:24], "little")
        return parse_header(data, file_nbytes=min(declared, file_nbytes))

    return parse
