"""A log replayed part after part is the log replayed whole: by digest, with flushes, on real stores."""

from __future__ import annotations

from random import Random

import pytest

from amemdb.persistence.codec import KNOWN_KINDS
from amemdb.persistence.parts import only_part, part_of, sum_digests
from amemdb.stores import records
from amemdb.stores.records import Record, object_of
from amemdb.stores.stores import Stores

T = 1_700_000_000_000


def history(seed: int) -> list[Record]:
    """A log over several families, with flushes in it; sessions own notes."""
    random = Random(seed)
    stores = Stores()
    log: list[Record] = []

    def emit(*record: object) -> None:
        stores.apply(record)
        log.append(record)

    for step in range(400):
        name = b"n%d" % random.randrange(12)
        lives = name in stores.conv.sessions
        match random.randrange(9):
            case 0:
                emit(records.CONVERSATION_SET, name, random.randint(1, 5), random.choice([0, T + step]), T, 0)
            case 1 if lives:
                emit(records.TURN_APPENDED, name, b"user", b"%d" % step, T + step, None, None)
            case 2 if lives:
                emit(records.NOTE_SET, name, b"k%d" % random.randrange(3), b"%d" % step, 0)
            case 3 if lives:
                emit(records.CONVERSATION_DROPPED, name)
            case 4:
                emit(records.SUMMARY_SET, name, b"%d" % step, step + 1, T)
            case 5:
                emit(records.KEY_SET, random.randrange(2), name, b"%d" % step, random.choice([0, T + step]))
            case 6:
                emit(records.KEY_APPENDED, 0, name, b"+")
            case 7 if random.random() < 0.1:
                emit(records.DATABASE_FLUSHED, random.randrange(2))
            case 8 if random.random() < 0.05:
                emit(records.ALL_FLUSHED)
    return log


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_parts_are_the_whole(count: int):
    for seed in range(6):
        log = history(seed)
        digests, objects = [], 0
        for index in range(count):
            stores = Stores()
            apply = only_part(stores.apply, index, count)
            for record in log:
                apply(record)
            digests.append(stores.digest(0))
            objects += sum(1 for _ in stores.dumps(0))
        whole = Stores()
        for record in log:
            whole.apply(record)
        assert sum_digests(digests) == whole.digest(0)
        assert objects == sum(1 for _ in whole.dumps(0))


def test_records_of_one_object_stay_together():
    together = [
        (records.CONVERSATION_SET, b"s", 1, 0, 0, 0),
        (records.TURN_APPENDED, b"s", b"user", b"x", 0, None, None),
        (records.NOTE_SET, b"s", b"k", b"v", 0),
        (records.CONVERSATION_DROPPED, b"s"),
    ]
    assert len({part_of(record, 64) for record in together}) == 1
    assert len({object_of(record) for record in together}) == 1


def test_names_spread_over_the_parts():
    parts = [part_of((records.KEY_SET, 0, b"k%d" % number, b"", 0), 8) for number in range(8000)]
    assert all(700 < parts.count(part) < 1300 for part in range(8))


def test_a_part_is_the_same_everywhere_and_cannot_be_chosen():
    record = (records.KEY_SET, 0, b"k", b"v", 0)
    assert part_of(record, 1000) == 920
    keyed = {part_of(record, 1000, key=bytes([number])) for number in range(50)}
    assert len(keyed) > 30


@pytest.mark.parametrize("key", [b"", b"0123456789abcdef"])
@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_a_record_goes_where_it_is_said_to_belong(key: bytes, count: int):
    """More names than are remembered, some of them again, some of them long."""
    random = Random(count)
    kinds = sorted(KNOWN_KINDS)
    sample = []
    for number in range(20_000):
        kind = random.choice(kinds)
        name = b"n%d" % random.randrange(number + 1) * random.choice([1, 1, 1, 40])
        sample.append((kind, random.randrange(16), name) if kind >= records.KEY_SET else (kind, name))
    for index in {0, 1, count // 2, count - 1} & set(range(count)):
        taken: list[Record] = []
        apply = only_part(taken.append, index, count, key)
        for record in sample:
            apply(record)
        assert taken == [record for record in sample if part_of(record, count, key) in (index, None)]


def test_a_part_divides_in_two():
    for number in range(500):
        record = (records.SUMMARY_DROPPED, b"a%d" % number)
        assert part_of(record, 6) % 3 == part_of(record, 3)


def test_objects_of_one_name_can_be_told_apart():
    """Or a part that holds them could never be made smaller."""
    same = [(records.CONVERSATION_DROPPED, b"x"), (records.NAMESPACE_DROPPED, b"x"), (records.EVENTS_CLEARED, b"x")]
    same += [(records.SUMMARY_DROPPED, b"x"), *((records.KEY_DELETED, db, b"x") for db in range(16))]
    assert len({part_of(record, 1 << 30) for record in same}) == 20


def test_a_flush_belongs_to_every_part():
    assert part_of((records.ALL_FLUSHED,), 5) is None
    assert part_of((records.DATABASE_FLUSHED, 3), 5) is None
    for index in range(3):
        seen: list[Record] = []
        only_part(seen.append, index, 3)((records.ALL_FLUSHED,))
        assert seen == [(records.ALL_FLUSHED,)]


def test_there_is_no_such_part():
    with pytest.raises(AssertionError):
        only_part(lambda record: None, 3, 3)
