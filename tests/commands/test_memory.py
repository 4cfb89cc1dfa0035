"""MEMORY: what is told of one object, and of all."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest

from tests.rig import Rig

VECTOR = b"\x00\x00\x80\x3f" * 8


@pytest.fixture
def rig() -> Rig:
    return Rig()


def stats(rig: Rig) -> dict[bytes, Any]:
    told = rig("MEMORY", "STATS")
    return dict(zip(told[::2], told[1::2], strict=True))


def test_usage_of_a_key_grows_with_it(rig: Rig) -> None:
    assert rig("MEMORY", "USAGE", "k") is None
    sizes = []
    for length in (2, 100, 10_000):
        rig("SET", "k", b"x" * length)
        sizes.append(rig("MEMORY", "USAGE", "k"))
    assert 48 + 48 < sizes[0] < 200
    assert 80 < sizes[1] - sizes[0] < 120
    assert 9_800 < sizes[2] - sizes[1] < 9_960
    rig("APPEND", "k", b"x" * 10_000)
    assert 20_000 < rig("MEMORY", "USAGE", "k", "SAMPLES", "5") < 23_000
    rig("EXPIRE", "k", "1")
    assert rig("MEMORY", "USAGE", "k") > 20_000
    rig.advance_ms(1000)
    assert rig("MEMORY", "USAGE", "k") is None


def test_usage_of_a_session_has_its_turns_and_notes(rig: Rig) -> None:
    assert rig("MEMORY", "USAGE", "s", "SESSION") is None
    rig("AMEM.CONV.CREATE", "s", "TTL", "10")
    empty = rig("MEMORY", "USAGE", "s", "SESSION")
    assert 100 < empty < 500
    rig("AMEM.CONV.APPEND", "s", "user", b"x" * 5000)
    turned = rig("MEMORY", "USAGE", "s", "session")
    assert 5000 < turned - empty < 5500
    rig("AMEM.WORK.SET", "s", "note", b"x" * 3000)
    assert 3000 < rig("MEMORY", "USAGE", "s", "SESSION") - turned < 3700
    assert rig("MEMORY", "USAGE", "s") is None, "no plain key"
    rig.advance_ms(10_000)
    assert rig("MEMORY", "USAGE", "s", "SESSION") is None


@pytest.mark.parametrize(
    ("word", "made"),
    [
        ("NAMESPACE", ["AMEM.SEM.STORE", "a", "k", b"x" * 5000, "FP32", VECTOR]),
        ("EVENTS", ["AMEM.EPIS.LOG", "a", "action", b"x" * 5000]),
        ("SUMMARY", ["AMEM.SUMMARY.SET", "a", b"x" * 5000]),
    ],
)
def test_usage_of_what_an_agent_has(rig: Rig, word: str, made: list[str | bytes]) -> None:
    assert rig("MEMORY", "USAGE", "a", word) is None
    if word == "NAMESPACE":
        rig("AMEM.SEM.CREATE", "a", "8")
    assert not isinstance(rig(*made), hiredis.ReplyError)
    assert 5000 < rig("MEMORY", "USAGE", "a", word) < 8000
    for other in {"SESSION", "NAMESPACE", "EVENTS", "SUMMARY"} - {word}:
        assert rig("MEMORY", "USAGE", "a", other) is None


def test_one_kind_can_be_meant(rig: Rig) -> None:
    assert "syntax error" in str(rig("MEMORY", "USAGE", "a", "EVENTS", "SUMMARY"))
    assert "samples" in str(rig("MEMORY", "USAGE", "a", "SAMPLES", "-1"))


def test_stats_are_told_by_store(rig: Rig) -> None:
    rig("AMEM.CONV.CREATE", "s")
    rig("AMEM.CONV.APPEND", "s", "user", b"x" * 5000)
    rig("AMEM.WORK.SET", "s", "note", b"x" * 3000)
    for number in range(3):
        rig("SET", f"k{number}", b"x" * 1000)
    told = stats(rig)
    assert told[b"keys.count"] == 3
    assert told[b"keys.bytes-per-key"] == rig("MEMORY", "USAGE", "k0"), "the tables themselves are left out"
    assert told[b"conversation"][:2] == [b"objects", 1]
    assert 5000 < told[b"conversation"][3] < 6500
    assert 3000 < told[b"working"][3] < 4000
    assert told[b"keyspace"][1] == 3
    assert told[b"summary"][1] == 0
    assert told[b"total.allocated"] == told[b"overhead.total"] + told[b"dataset.bytes"]
    assert told[b"peak.allocated"] >= told[b"total.allocated"]
    assert told[b"dropped.bytes"] == 0


def test_indexes_for_words_are_counted_with_what_they_find(rig: Rig) -> None:
    rig("AMEM.SEM.CREATE", "a", "2")
    rig("AMEM.CONV.CREATE", "a")
    rig("AMEM.WORK.SET", "a", "note", "apple")
    for number in range(50):
        rig("AMEM.SEM.STORE", "a", f"k{number}", f"apple {number}", 1, 1)
        rig("AMEM.EPIS.LOG", "a", "action", f"apple {number}")
        rig("AMEM.CONV.APPEND", "a", "user", f"apple {number}")
    kinds = ("NAMESPACE", "EVENTS", "SESSION")
    before = [rig("MEMORY", "USAGE", "a", kind) for kind in kinds]
    assert stats(rig)[b"text.bytes"] == 0
    total = stats(rig)[b"total.allocated"]
    assert len(rig("AMEM.SEARCH", "a", 9, 1, 1, "TEXT", "apple")) == 9
    grown = [rig("MEMORY", "USAGE", "a", kind) - was for kind, was in zip(kinds, before, strict=True)]
    assert min(grown) > 3000
    told = stats(rig)
    assert told[b"text.bytes"] > sum(grown)
    assert told[b"total.allocated"] - total == told[b"text.bytes"]


def test_what_was_dropped_counts_until_it_is_freed(rig: Rig) -> None:
    for number in range(2000):
        rig("SET", f"k{number}", b"x" * 100)
    before = stats(rig)
    rig("FLUSHALL")
    after = stats(rig)
    assert after[b"dropped.bytes"] > 0.9 * (before[b"keyspace"][3] - after[b"keyspace"][3])
    assert abs(after[b"total.allocated"] - before[b"total.allocated"]) < 20_000
    while rig.stores.graveyard.free(1000):
        pass
    assert stats(rig)[b"dropped.bytes"] == 0
    assert stats(rig)[b"total.allocated"] < before[b"total.allocated"] - 300_000


def test_everything_that_is_large_goes_bit_by_bit(rig: Rig) -> None:
    rig("AMEM.SEM.CREATE", "a", "8")
    for number in range(1500):
        rig("AMEM.SEM.STORE", "a", f"k{number}", b"x" * 100, "FP32", VECTOR)
        rig("AMEM.SUMMARY.SET", f"a{number}", b"x" * 100)
    rig("FLUSHALL")
    graveyard = rig.stores.graveyard
    sizes = [rig.stores.ledger.graveyard]
    while graveyard.free(100):
        sizes.append(rig.stores.ledger.graveyard)
    assert len(sizes) > 20
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0


def test_help(rig: Rig) -> None:
    assert rig("MEMORY", "HELP")[0].startswith(b"MEMORY <subcommand>")
