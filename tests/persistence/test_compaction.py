"""Compaction: the new base and what follows it is the log, in whatever parts it was made; nothing else is touched."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from random import Random
from typing import Any

import hiredis
import pytest
from rig import Rig
from test_sequences import Sequence as Played

from amemdb.commands.session import Session
from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence.base import read_base
from amemdb.persistence.compaction import Progress, Task, compact
from amemdb.persistence.manifest import Base, Manifest, Segment, base_name
from amemdb.persistence.parts import part_of
from amemdb.stores import records
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores
from tests.persistence.made import (
    LOG_ID,
    T,
    content,
    frame,
    loaded,
    make_log,
    rebased,
    run,
    task_of,
)
from tests.persistence.simulated import SimulatedDisk, Stopped

MARKER = b"never to be seen again"


class Sure(Rig):
    """One that is asked only for what works."""

    def __call__(self, *words: str | bytes | int, session: Session | None = None) -> Any:
        reply = super().__call__(*words, session=session)
        assert not isinstance(reply, hiredis.ReplyError), f"{words}: {reply}"
        return reply


def compacted(
    frames: Sequence[bytes], cut: int, tail: Sequence[bytes] = (), *, parts: int = 1, memory_bytes: int = 1 << 30
) -> tuple[SimulatedDisk, Manifest]:
    """A log of `frames`, those before `cut` in closed segments and compacted; then `tail` is added to the open one."""
    disk = SimulatedDisk(Random(1))
    third = cut // 3
    closed = [part for part in (frames[:third], frames[third:cut]) if part]
    manifest = make_log(disk, *closed, [*frames[cut:], *tail])
    done = run(disk, task_of(manifest, parts=parts, memory_bytes=memory_bytes))
    return disk, rebased(disk, manifest, done)


def state_of(frames: Sequence[bytes]) -> Stores:
    stores, _ = loaded_whole(frames)
    return stores


def loaded_whole(frames: Sequence[bytes]) -> tuple[Stores, object]:
    disk = SimulatedDisk(Random(1))
    make_log(disk, frames)
    return loaded(disk)


def base_bytes(disk: SimulatedDisk) -> bytes:
    (name,) = [name for name in disk.names() if name.endswith(".base")]
    return bytes(disk.file(name))


# -- the same state ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
def test_base_and_tail_are_the_whole_log(seed: int):
    """Random sequences over all families, expiry and flushes included, cut anywhere, in parts of every kind."""
    played = Played(seed)
    played.run()
    frames = played.rig.log.frames
    random = Random(seed)
    cut = random.randrange(1, len(frames) + 1)
    parts = random.choice([1, 2, 7])
    memory_bytes = random.choice([1 << 30, 100_000, 20_000, 1000])
    disk, _ = compacted(frames, cut, parts=parts, memory_bytes=memory_bytes)
    stores, report = loaded(disk)
    assert stores.digest(0) == played.rig.stores.digest(0)
    assert stores.digest(played.rig.now_ms) == played.rig.stores.digest(played.rig.now_ms)
    assert report.offset == sum(map(len, frames))
    assert report.last_time_ms == loaded_whole(frames)[1].last_time_ms
    assert dict(stores.tables_bytes()).keys() == played.rig.stores.tables_bytes().keys()


@pytest.mark.parametrize("seed", range(6))
def test_compaction_of_what_was_compacted(seed: int):
    """Each time with more of the log, and with other parts."""
    played = Played(100 + seed)
    played.run()
    frames = played.rig.log.frames
    quarter = len(frames) // 4
    disk = SimulatedDisk(Random(1))
    manifest = make_log(
        disk, *(frames[index * quarter : (index + 1) * quarter] for index in range(4)), frames[4 * quarter :]
    )
    whole = manifest.segments
    number = manifest.next_number
    for index in range(1, 5):
        base, start = manifest.base, manifest.segments[0]
        task = Task(LOG_ID, base, (start,), whole[index].start, number, 30_000 if index % 2 else 1 << 30, index)
        done = run(disk, task)
        number += 1
        manifest = Manifest(LOG_ID, whole[index:], number, done.base)
        rebased(disk, manifest, done)
    assert manifest.segments == whole[-1:]
    assert loaded(disk)[0].digest(0) == played.rig.stores.digest(0)


def test_the_parts_make_no_difference_but_in_order():
    rig = Sure()
    for number in range(7):
        rig("AMEM.CONV.CREATE", f"s{number}")
    for number in range(60):
        rig("SET", f"k{number}", "v" * number)
        rig("AMEM.CONV.APPEND", f"s{number % 7}", "user", f"turn {number}")
        rig("AMEM.EPIS.LOG", f"a{number % 5}", "seen", f"event {number}")
    found = []
    for parts in (1, 2, 7, 50):
        disk, manifest = compacted(rig.log.frames, len(rig.log.frames), parts=parts)
        assert manifest.base is not None
        found.append(sorted(record for block in read_base(disk, LOG_ID, manifest.base) for record in block.records))
    assert all(one == found[0] for one in found)
    assert loaded(disk)[0].digest(0) == rig.digest()


# -- what needs care ---------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_flushes_erase_what_came_before_them_in_every_part(parts: int):
    rig = Sure()
    for number in range(20):
        rig("SET", f"k{number}", MARKER)
        rig("AMEM.CONV.CREATE", f"s{number}")
        rig("AMEM.CONV.APPEND", f"s{number}", "user", "kept" if number % 2 else MARKER)
    rig("FLUSHDB")
    for number in range(0, 20, 2):
        rig("AMEM.CONV.DROP", f"s{number}")
    rig("SET", "k3", "again")
    rig("SELECT", 3)
    rig("SET", "other", MARKER)
    rig("FLUSHALL")
    rig("SET", "k4", "last")
    disk, _ = compacted(rig.log.frames, len(rig.log.frames), parts=parts)
    stores, report = loaded(disk)
    assert stores.digest(0) == rig.digest()
    assert report.base_records == 1
    assert MARKER not in base_bytes(disk)
    assert b"kept" not in base_bytes(disk)


def test_what_was_erased_is_gone_from_the_base():
    rig = Sure()
    rig("AMEM.CONV.CREATE", "s", "WINDOW", 2)
    for text in (MARKER, "b", "c"):
        rig("AMEM.CONV.APPEND", "s", "user", text)
    rig("AMEM.WORK.SET", "s", "note", MARKER)
    rig("AMEM.WORK.SET", "s", "note", "other")
    rig("AMEM.SEM.CREATE", "a", 2)
    rig("AMEM.SEM.STORE", "a", "fact", MARKER, 1, 0)
    rig("AMEM.SEM.FORGET", "a", "fact")
    rig("AMEM.EPIS.LOG", "a", "seen", MARKER)
    rig("AMEM.EPIS.LOG", "a", "seen", "newer")
    rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", 1)
    rig("AMEM.SUMMARY.SET", "a", MARKER)
    rig("AMEM.SUMMARY.DROP", "a")
    rig("SET", "k", MARKER)
    rig("SET", "k", "other")
    rig("SET", "old", MARKER)
    rig("RENAME", "old", "new")
    rig("DEL", "new")
    assert sum(MARKER in one for one in rig.log.frames) >= 7
    disk, _ = compacted(rig.log.frames, len(rig.log.frames))
    assert MARKER not in base_bytes(disk)
    assert loaded(disk)[0].digest(0) == rig.digest()


def test_what_has_expired_and_was_not_removed_keeps_its_expiry():
    """A PERSIST that was made in time comes after the cut: nothing may act on a clock before it."""
    rig = Sure()
    rig("SET", "k", "v", "PX", 1000)
    rig("AMEM.CONV.CREATE", "s", "TTL", 1)
    rig("AMEM.WORK.SET", "s", "note", "v", "TTL", 1)
    rig("AMEM.SEM.CREATE", "a", 2)
    rig("AMEM.SEM.STORE", "a", "fact", "text", 1, 0, "TTL", 1)
    rig("SET", "gone", "v", "PX", 500)
    rig.advance_ms(900)
    rig("SET", "late", "v")
    cut = len(rig.log.frames)
    rig("PERSIST", "k")
    rig("AMEM.CONV.EXPIRE", "s", "PERSIST")
    disk, _ = compacted(rig.log.frames, cut)
    stores, _ = loaded(disk)
    assert stores.digest(0) == rig.digest()
    assert stores.keys.live(0, b"k", T + 10**9) == b"v"
    assert stores.keys.expire_at_ms(0, b"gone") == rig.stores.keys.expire_at_ms(0, b"gone") == T + 500
    assert stores.keys.is_dead(0, b"gone", T + 500)
    due = sorted(stores.due(T + 5000, 100))
    assert due == sorted(rig.stores.due(T + 5000, 100))
    assert [entry[0] for entry in due] == ["fact", "key", "note"]


def test_a_renamed_key_keeps_its_expiry_under_its_new_name():
    rig = Sure()
    rig("SET", "k", "v", "PX", 5000)
    rig("RENAME", "k", "early")
    cut = len(rig.log.frames)
    rig("RENAME", "early", "late")
    for upto in (cut, cut + 1):
        disk, _ = compacted(rig.log.frames, upto, parts=3)
        stores, _ = loaded(disk)
        assert stores.keys.databases[0].values == {b"late": b"v"}
        assert stores.keys.expire_at_ms(0, b"late") == T + 5000


def test_numbers_go_on_where_they_were():
    """Ids of facts and the numbers of turns and events are given out once, also when what had them is gone."""
    rig = Sure()
    rig("AMEM.CONV.CREATE", "s")
    rig("AMEM.SEM.CREATE", "a", 2)
    for number in range(5):
        rig("AMEM.CONV.APPEND", "s", "user", f"turn {number}")
        rig("AMEM.SEM.STORE", "a", f"f{number}", "text", 1, 0)
        rig("AMEM.EPIS.LOG", "a", "seen", f"event {number}")
    rig("AMEM.CONV.CLEAR", "s")
    for number in range(5):
        rig("AMEM.SEM.FORGET", "a", f"f{number}")
    rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", 10)
    rig("AMEM.EPIS.CLEAR", "a")
    disk, _ = compacted(rig.log.frames, len(rig.log.frames))
    stores, _ = loaded(disk)
    assert stores.conv.sessions[b"s"].seq == 5
    assert stores.sem.namespaces[b"a"].next_fact_id == rig.stores.sem.namespaces[b"a"].next_fact_id >= 5
    assert stores.epis.logs[b"a"].next_seq == rig.stores.epis.logs[b"a"].next_seq >= 5
    assert stores.epis.logs[b"a"].maxlen == 10


def test_the_last_time_survives_without_a_frame():
    frames = [frame((records.KEY_SET, 0, b"k", b"v", 0), at_ms=T + number) for number in range(4)]
    disk, manifest = compacted(frames, 3)
    assert manifest.base is not None
    assert manifest.base.time_ms == T + 2
    disk, manifest = compacted(frames, 4)
    assert loaded(disk)[1].last_time_ms == T + 3


# -- parts and memory --------------------------------------------------------------------------------


def keys(count: int, size: int) -> list[bytes]:
    return [frame((records.KEY_SET, 0, b"k%d" % number, b"v" * size, 0), at_ms=T + number) for number in range(count)]


def test_a_part_that_is_too_large_is_divided():
    frames = keys(400, 1000)
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, frames[:200], frames[200:], [])
    told: list[Progress] = []
    done = run(disk, task_of(manifest, memory_bytes=150_000), told.append)
    assert done.parts >= 4
    assert done.objects == done.records == 400
    assert told[-1].parts == told[-1].part == done.parts
    assert [one.read for one in told] == sorted(one.read for one in told)
    assert all(one.read <= one.of and one.part <= one.parts for one in told)
    assert told[-1].read == told[-1].of
    assert told[-1].written == done.base.size
    rebased(disk, manifest, done)
    stores, _ = loaded(disk)
    assert stores.digest(0) == state_of(frames).digest(0)


def test_no_part_holds_more_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    """As it is looked at between blocks: one block may be beyond it."""
    held: list[int] = []
    plain = Stores.apply

    def counted(stores: Stores, record: Record) -> None:
        plain(stores, record)
        held.append(stores.ledger.held + sum(stores.tables_bytes().values()))

    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, keys(300, 1000), [])
    empty = Stores()
    empty_bytes = empty.ledger.held + sum(empty.tables_bytes().values())
    monkeypatch.setattr(Stores, "apply", counted)
    done = run(disk, task_of(manifest, memory_bytes=100_000))
    assert done.parts > 2
    assert 50_000 < max(held) - empty_bytes < 100_000 + 2 * 1100 + 2000


def test_one_large_object_is_no_reason_to_divide():
    frames = [frame((records.KEY_APPENDED, 0, b"large", b"v" * 10_000)) for _ in range(100)]
    frames += [frame((records.SUMMARY_SET, b"a", b"t" * 100, number + 1, T)) for number in range(10)]
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, frames, [])
    assert run(disk, task_of(manifest, memory_bytes=50_000)).parts == 1


def test_large_objects_come_into_parts_of_their_own():
    names = [b"a", b"b", b"c", b"d"]
    turns = [(records.CONVERSATION_SET, name, 1000, 0, T, 0) for name in names]
    frames = [frame(record) for record in turns]
    for number in range(200):
        for name in names:
            frames.append(frame((records.TURN_APPENDED, name, b"user", b"t" * 1000, T + number, None, None)))
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, frames, [])
    done = run(disk, task_of(manifest, memory_bytes=100_000))
    assert done.parts >= 4
    for parts in range(1, 1 << 12):
        if len({part_of(record, parts, LOG_ID) for record in turns}) == 4:
            break
    assert done.parts <= 2 * parts + 8, "it is not divided further than it helps"
    rebased(disk, manifest, done)
    assert loaded(disk)[0].digest(0) == state_of(frames).digest(0)


def test_what_is_dropped_on_the_way_takes_no_memory():
    """A log that flushed large states has parts as its end has."""
    frames = []
    for _ in range(5):
        frames += [*keys(400, 1000), frame((records.ALL_FLUSHED,))]
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, [*frames, *keys(10, 10)], [])
    done = run(disk, task_of(manifest, memory_bytes=600_000))
    assert (done.parts, done.objects) == (1, 10)


# -- one file and no other ---------------------------------------------------------------------------


def test_no_other_file_is_changed():
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, keys(20, 10), keys(20, 20), keys(3, 3))
    before = content(disk)
    task = task_of(manifest, parts=3)
    done = run(disk, task)
    after = content(disk)
    assert len(after.pop(done.base.name)) == done.base.size
    assert after == before
    disk.power_cut()
    rebased(disk, manifest, done)
    assert loaded(disk)[0].digest(0) == state_of([*keys(20, 10), *keys(20, 20), *keys(3, 3)]).digest(0)


def test_it_can_be_stopped_anywhere():
    """What it leaves over is one file that no manifest names."""
    frames = keys(300, 3000)
    whole = state_of(frames).digest(0)
    for count in range(100):
        disk = SimulatedDisk(Random(count))
        manifest = make_log(disk, frames[:200], frames[200:])
        disk.operations.clear()
        disk.stop_in = count
        try:
            done = run(disk, task_of(manifest, memory_bytes=500_000))
        except Stopped:
            done = None
        disk.power_cut() if count % 2 else disk.kill()
        if done is not None:
            break
        extra = set(disk.names()) - {*manifest.names, "log.manifest"}
        assert extra <= {base_name(task_of(manifest).number)}
        assert loaded(disk)[0].digest(0) == whole
    assert done is not None
    assert count > 4
    rebased(disk, manifest, done)
    assert loaded(disk)[0].digest(0) == whole


def test_it_can_be_given_up_between_blocks():
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, keys(20, 10), [])
    work = compact(disk, task_of(manifest))
    next(work)
    work.close()
    assert disk.names() == [*manifest.names, "log.manifest"]


@pytest.mark.parametrize("operation", ["create", "write", "sync", "sync_folder"])
def test_a_disk_that_refuses_is_told(operation: str):
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, keys(20, 10), [])
    disk.faults = {operation: errno.ENOSPC}
    with pytest.raises(StorageError, match=r"\.base cannot be written: No space left") as refused:
        run(disk, task_of(manifest))
    assert not isinstance(refused.value, CorruptLogError)


def test_a_file_of_that_name_is_never_overwritten():
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, keys(20, 10), [])
    task = task_of(manifest)
    disk.create(base_name(task.number)).write_at(0, b"mine")
    with pytest.raises(StorageError, match="File exists"):
        run(disk, task)
    assert bytes(disk.file(base_name(task.number))) == b"mine"


# -- damage ------------------------------------------------------------------------------------------


def test_damage_in_a_closed_segment_is_corruption():
    """Also where an open one would have it cut off."""
    disk = SimulatedDisk(Random(1))
    frames = keys(6, 5)
    manifest = make_log(disk, frames, [])
    task = task_of(manifest)
    name = manifest.segments[0].name
    whole = bytes(disk.file(name))
    for at in range(len(whole)):
        disk.file(name)[:] = whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]
        with pytest.raises(CorruptLogError) as refused:
            run(disk, task)
        assert refused.value.file.endswith(name)
        assert disk.names() == [*manifest.names, "log.manifest"], "nothing was begun"
    for size in range(len(whole)):
        disk.file(name)[:] = whole[:size]
        with pytest.raises(CorruptLogError):
            run(disk, task)
    disk.file(name)[:] = whole + b"what lies behind its end is void"
    run(disk, task)


def test_a_spoilt_base_is_corruption():
    disk, manifest = compacted(keys(6, 5), 6)
    assert manifest.base is not None
    again = Task(LOG_ID, manifest.base, manifest.segments, manifest.base.offset, 99, 1 << 30)
    disk.file(manifest.base.name)[100] ^= 1
    with pytest.raises(CorruptLogError) as refused:
        run(disk, again)
    assert refused.value.file.endswith(manifest.base.name)


def test_a_missing_file_is_corruption():
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, keys(6, 5), keys(6, 5), [])
    disk.remove(manifest.segments[1].name)
    with pytest.raises(CorruptLogError, match="missing"):
        run(disk, task_of(manifest))


# -- the task ----------------------------------------------------------------------------------------

TASK = Task(LOG_ID, Base(3, 100, T, 4096), (Segment(4, 100), Segment(5, 300)), 500, 9, 1 << 20, 2)


def test_a_task_comes_back_as_it_was():
    assert Task.from_json(TASK.to_json()) == TASK
    without = Task(LOG_ID, None, (Segment(1, 0),), 500, 9, 1 << 20)
    assert Task.from_json(without.to_json()) == without
    assert "\n" not in TASK.to_json()


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", "[]", "7", "null", "{}", "\x00"),
        TASK.to_json().replace('"end": 500', '"end": -1'),
        TASK.to_json().replace('"end": 500', '"end": "500"'),
        TASK.to_json().replace('"end": 500', '"ending": 500'),
        TASK.to_json().replace('"parts": 2', '"parts": 0'),
        TASK.to_json().replace('"parts": 2', '"parts": 999999999999'),
        TASK.to_json().replace('"offset": 100', '"place": 100'),
        TASK.to_json().replace(LOG_ID.hex(), "00"),
        TASK.to_json().replace(LOG_ID.hex(), "xx"),
        Task(LOG_ID, None, (), 500, 9, 1 << 20).to_json(),
    ],
)
def test_what_is_no_task_is_refused(line: str):
    with pytest.raises(ValueError):
        Task.from_json(line)
