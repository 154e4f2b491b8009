"""The quick counts of every kind of attack, and that the attacks can find something."""

import json
import time

import pytest

from tests.reliability import canary
from tests.reliability.forgeries import hostile_json, hostile_ranges
from tests.reliability.rows import ROWS
from tests.reliability.tally import REFUSALS, Tally, read_contents

PARSE_TIMES_MAX = 4


# The canaries have a test of their own below.
ATTACKS = [row for row in ROWS if row.name != "canaries"]


@pytest.mark.parametrize("row", ATTACKS, ids=lambda row: f"{row.number} {row.name}")
def test_every_attack_is_refused_or_harmless(row):
    tally = row.run(row.num_quick)
    assert tally.wrong == []
    assert tally.num_cases >= row.num_quick
    assert tally.num_cases == tally.num_refused + tally.num_harmless


@pytest.mark.parametrize("number", range(len(canary.CANARIES)), ids=lambda n: canary.CANARIES[n][0])
def test_every_planted_bug_is_found_within_ten_seconds(number):
    _, plant, attack = canary.CANARIES[number]
    start_s = time.process_time()
    with plant():
        assert attack().wrong
    assert time.process_time() - start_s < 10


@pytest.mark.parametrize(
    "what, forgeries",
    [("100,000 overlapping tensors", hostile_ranges), ("a million keys", hostile_json)],
    ids=["overlapping", "keys"],
)
def test_huge_hostile_indexes_cost_little_more_than_parsing_their_text(what, forgeries):
    """Refused in linear time: well under a second where nothing else runs."""
    data = dict(forgeries())[what]
    text = data[int.from_bytes(data[24:32], "little") :]
    start_s = time.process_time()
    json.loads(text)
    parse_s = time.process_time() - start_s
    start_s = time.process_time()
    with pytest.raises(REFUSALS):
        read_contents(data)
    assert time.process_time() - start_s < PARSE_TIMES_MAX * parse_s


def test_a_tally_tells_wrong_data_and_wrong_exceptions_from_refusals():
    tally = Tally(0, "itself")
    tally.attempt(lambda: False, "wrong data")
    tally.attempt(lambda: 1 // 0, "wrong exception")
    tally.attempt(lambda: True, "harmless")
    assert (tally.num_cases, tally.num_refused, tally.num_harmless) == (3, 0, 1)
    assert [text.split(":")[0] for text in tally.wrong] == ["wrong data", "wrong exception"]
