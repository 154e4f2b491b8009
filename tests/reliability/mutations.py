"""Rows 1, 2 and 3: random mutations, every single-bit flip, every truncation and appended junk."""

import random

from tests.reliability.tally import Contents, Tally, read_contents


def mutate(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to three random changes of a kind that disks, wires and fuzzers make."""
    result = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        _CHANGES[rng.randrange(len(_CHANGES))](result, rng)
    return bytes(result)


def random_mutations(data: bytes, count: int, seed: int = 0) -> Tally:
    """Row 1 on a container."""
    tally, want, rng = Tally(1, "random mutations of a container"), read_contents(data), None
    for case in range(count):
        rng = random.Random(seed << 32 | case)
        mutant = mutate(data, rng)
        tally.attempt(
            lambda mutant=mutant: read_contents(mutant) == want, f"seed {seed} case {case}"
        )
    return tally.done()


def bit_flips(data: bytes) -> Tally:
    """Row 2 on a container: all of them; none may even be harmless, for all bytes are checked."""
    tally, want = Tally(2, "every single-bit flip of a container"), read_contents(data)
    flipped = bytearray(data)
    for bit in range(8 * len(data)):
        flipped[bit // 8] ^= 1 << bit % 8
        tally.attempt(lambda: read_contents(bytes(flipped)) == want, f"bit {bit}")
        flipped[bit // 8] ^= 1 << bit % 8
    if tally.num_harmless:
        tally.wrong.append(f"{tally.num_harmless} flips went unnoticed")
    return tally.done()


def truncations(data: bytes, junk_nbytes_max: int = 64) -> Tally:
    """Row 3 on a container; a message must name both the size expected and the size found."""
    tally, want = Tally(3, "every truncation, and appended junk"), read_contents(data)
    rng = random.Random(0)
    lengths = [*range(len(data)), *range(len(data) + 1, len(data) + junk_nbytes_max + 1)]
    for length in lengths:
        piece = data[:length] + rng.randbytes(max(0, length - len(data)))
        before = tally.num_refused
        tally.attempt(lambda piece=piece: _read_naming_sizes(piece, len(data), want), length)
        if tally.num_refused == before:
            tally.wrong.append(f"{length} of {len(data)} bytes were accepted")
    return tally.done()


def _read_naming_sizes(piece: bytes, nbytes: int, want: Contents) -> bool:
    try:
        return read_contents(piece) == want
    except Exception as error:
        message = str(error)
        # Below a whole header nobody knows how long the file should be, but for the header itself.
        sizes = (str(nbytes), str(len(piece))) if len(piece) >= 64 else ("64", str(len(piece)))
        if len(piece) and not all(size in message for size in sizes):
            raise AssertionError(f"{message} must name {sizes}") from error
        raise


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _insert(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 8, 64)))


def _delete(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.choice((1, 2, 8, 64))]


def _duplicate(data: bytearray, rng: random.Random) -> None:
    start, at = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    data[at:at] = data[start : start + rng.choice((1, 8, 64, 256))]


def _move(data: bytearray, rng: random.Random) -> None:
    """Copy a block over another, which keeps the size right: a misdirected write."""
    nbytes = rng.choice((1, 8, 64, 512))
    if len(data) > nbytes:
        source, target = (rng.randrange(len(data) - nbytes) for _ in range(2))
        data[target : target + nbytes] = data[source : source + nbytes]


def _zero(data: bytearray, rng: random.Random) -> None:
    """Blank a block: a write that never came."""
    nbytes = min(rng.choice((1, 8, 64, 512)), len(data))
    start = rng.randrange(len(data) - nbytes + 1)
    data[start : start + nbytes] = bytes(nbytes)


def _write_number(data: bytearray, rng: random.Random) -> None:
    """Put an extreme number where one may stand."""
    if len(data) > 8:
        start = rng.randrange(len(data) - 8)
        number = rng.choice((0, 1, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1, len(data)))
        data[start : start + 8] = number.to_bytes(8, "little")


_CHANGES = (_flip, _flip, _set, _insert, _delete, _duplicate, _move, _zero, _write_number)
