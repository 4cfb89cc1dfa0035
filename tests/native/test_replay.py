"""Native replay against the reference, in one process: the same state to the byte, or the same refusal, from any block.

The reference is the same reading with something between it and the stores, which is what it is asked for elsewhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest

from amemdb import native
from amemdb.errors import CorruptLogError
from amemdb.limits import EVENT_IDS_REMEMBERED
from amemdb.persistence import manifest as manifests
from amemdb.persistence.base import BASE_HEADER_BYTES, pack_base_header
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, KNOWN_KINDS, pack_block_header
from amemdb.persistence.disk import Disk, FolderDisk
from amemdb.persistence.manifest import Base, Manifest, base_name
from amemdb.persistence.recovery import RecoveryReport, recover, replayer_of
from amemdb.stores import records
from amemdb.stores.records import FIELDS, Record
from amemdb.stores.stores import Stores
from tests.native.changes import HOSTILE, Changes, T, mutated, spoilt
from tests.persistence.made import LOG_ID, make_base, make_log, put_manifest, rebased, run, task_of
from tests.persistence.simulated import SimulatedDisk

pytestmark = pytest.mark.skipif(not native.ENABLED, reason=f"needs the twins: {native.MISSING}")
if native.ENABLED:
    from amemdb.persistence._writing import Tail

GOLDEN = Path(__file__).parents[1] / "persistence" / "golden"
FOREVER_MS = 1 << 62
LEDGER = ("conversation", "working", "semantic", "episodic", "summary", "keyspace", "graveyard")


def all_of(stores: Stores) -> dict[str, Any]:
    """All that can be compared of what is held."""
    for one in (*stores.conv.sessions.values(), *stores.work.sessions.values(), *stores.epis.logs.values()):
        assert one.walked_bytes() == one.memory_bytes()
    wheels = [stores.wheel, *(database.wheel for database in stores.keys.databases)]
    return {
        "digest": stores.digest(0),
        "dumps": [list(dump) for dump in stores.dumps(0)],  # the order in which things came is the same as well
        "ledger": [getattr(stores.ledger, name) for name in LEDGER],
        "tables": stores.tables_bytes(),
        "due": [sorted(wheel.due(FOREVER_MS, 10**6)) for wheel in wheels],
        "ids": {agent: log.ids for agent, log in stores.epis.logs.items()},
        "names": [sorted(stores.conv.sessions), sorted(stores.work.sessions), sorted(stores.epis.logs)],
        "scan": len(stores.conv.names) + len(stores.epis.names) + len(stores.keys.databases[0].names),
        "notes": [name for name, one in stores.conv.sessions.items() if one.notes is not None],
    }


def outcome(disk: Disk, manifest: Manifest, *, natively: bool) -> tuple[Any, ...]:
    """What a reading comes to: state and report, or the exception with all its words."""
    stores = Stores()
    assert replayer_of(stores.apply) is not None
    report: RecoveryReport | None = None
    try:
        report = recover(disk, manifest, stores.apply if natively else lambda one: stores.apply(one))
        return all_of(stores), report
    except Exception as error:  # stores take some things of the wrong type, and fail when they are to show them
        return type(error), str(error), getattr(error, "__notes__", []), report


def assert_same(disk: Disk, manifest: Manifest) -> tuple[Any, ...]:
    found = outcome(disk, manifest, natively=True)
    assert found == outcome(disk, manifest, natively=False)
    return found


def packed(frames: Iterable[Any]) -> bytes:
    return b"".join(map(msgpack.packb, frames))


def log_of(*payloads: bytes, base: Base | None = None, disk: SimulatedDisk | None = None) -> tuple[Disk, Manifest]:
    """A log of those blocks: `make_log` puts two frames into one."""
    disk = SimulatedDisk(Random(1)) if disk is None else disk
    return disk, make_log(disk, [part for payload in payloads for part in (payload, b"")], base=base)


def base_of(*payloads: bytes) -> tuple[Disk, Manifest]:
    """A base of those blocks, whatever is in them, and an empty log behind it."""
    data, offset = pack_base_header(LOG_ID, 40, 1000, T), 0
    for payload in payloads:
        data += pack_block_header(LOG_ID, 40, len(data), offset, 0, payload) + payload
        offset += len(payload)
    data += pack_block_header(LOG_ID, 40, len(data), offset, offset, b"")
    disk = SimulatedDisk(Random(1))
    disk.create(base_name(40)).write_at(0, data)
    return disk, make_log(disk, [], base=Base(40, 1000, T, len(data)), number=41)


def session(*more: Record) -> tuple[Record, ...]:
    return ((records.CONVERSATION_SET, b"s", 10, 0, T, 0), *more)


# -- what is right -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_logs(seed: int):
    random = Random(seed)
    changes = Changes(random, fields_max=300 if seed % 3 else 20_000)
    payloads = [packed(changes.frame() for _ in range(random.randint(1, 40))) for _ in range(20)]
    state, report = assert_same(*log_of(*payloads))
    assert state == all_of(changes.stores)
    assert report.last_time_ms == changes.now_ms
    assert report.frames == sum(len(list(_unpacked(payload))) for payload in payloads)


def _unpacked(payload: bytes) -> msgpack.Unpacker:
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(payload)
    return unpacker


@pytest.mark.parametrize("seed", range(6))
def test_random_bases_and_what_compaction_makes_of_them(seed: int):
    random = Random(seed)
    changes = Changes(random, names=30)
    for _ in range(150):
        changes.frame()
    disk = SimulatedDisk(random)
    held = [record for dump in changes.stores.dumps(0) for record in dump]
    base = make_base(disk, held, offset=0)
    newer = [packed([changes.frame()]) for _ in range(150)]
    manifest = make_log(disk, newer[:100], newer[100:], base=base, number=41)
    state, report = assert_same(disk, manifest)
    assert state["digest"] == changes.stores.digest(0)
    assert report.base_records == len(held)
    for parts in (1, 3):
        done = run(disk, task_of(manifest, parts=parts))
        state, report = assert_same(disk, rebased(disk, manifest, done))
        assert state["digest"] == changes.stores.digest(0)
        disk.remove(done.base.name)
        put_manifest(disk, manifest)


def test_every_kind_of_record_is_among_them():
    seen: set[int] = set()
    for seed in range(12):
        changes = Changes(Random(seed))
        seen |= {changes.record()[0] for _ in range(400)}
    assert seen == KNOWN_KINDS == set(FIELDS)


@pytest.mark.parametrize("folder", ["format-1", "format-1-base"])
def test_golden_logs(folder: str, tmp_path: Path):
    shutil.copytree(GOLDEN / folder, tmp_path / "data")
    disk = FolderDisk(str(tmp_path / "data"))
    manifest = manifests.read(disk)
    assert manifest is not None
    assert_same(disk, manifest)
    disk.close()


PLAIN: list[Record] = [
    *((records.TURN_APPENDED, b"s", role, b"hello", T, None, None) for role in (b"user", b"tool", b"system")),
    (records.TURN_APPENDED, b"s", b"assistant", b"x" * 70_000, -5, None, None),
    (records.NOTE_SET, b"s", b"k", b"v", 0),
    (records.NOTE_SET, b"s", b"", b"x" * 300, 0),
    (records.KEY_SET, 15, b"k", b"v", 0),
    (records.KEY_SET, 0, b"", b"", 0),
    (records.EVENT_LOGGED, b"a", 7, T, b"seen", b"more", None, None),
    (records.EVENT_LOGGED, b"a", 8, T - 50, b"", b"", None, None),
]
BEGUN = (*session(), (records.EVENT_LOGGED, b"a", 1, T, b"seen", b"first", None, None))


@pytest.mark.parametrize("record", PLAIN)
def test_what_is_plain_never_becomes_a_tuple(record: Record):
    """Nor does what is no record behind it hinder it, nor is anything of that done."""
    stores = Stores()
    stores.apply_all(BEGUN)
    replayer = replayer_of(stores.apply)
    expected = Stores()
    expected.apply_all((*BEGUN, record))
    payload = msgpack.packb((T + 1, record))
    assert replayer.take_frames(payload + b"\xc1") == len(payload)
    assert (replayer.frame_count, replayer.record_count, replayer.time_ms) == (1, 1, T + 1)
    assert all_of(stores) == all_of(expected)


def test_of_what_is_not_right_nothing_is_done():
    stores = Stores()
    replayer = replayer_of(stores.apply)
    stores.apply_all(session())
    before = all_of(stores)
    turn, unknown = PLAIN[0], (63, b"x")
    for frame in ((T, turn, unknown), (T, unknown), (T,), (), T, None, (T, *session(), "text"), (2**63, turn)):
        assert replayer.take_frames(msgpack.packb(frame)) == 0
        assert (replayer.frame_count, replayer.record_count) == (0, 0)
    assert replayer.take_frames(msgpack.packb((T, *session())) + b"\xc1") == 0, "no plain one, with damage behind it"
    assert replayer.take_frames(b"") == replayer.take_records(b"") == 0
    assert all_of(stores) == before


def test_a_value_that_somebody_watches_is_not_plain():
    stores = Stores()
    stores.keys.watch(0, b"k")
    replayer_of(stores.apply).take_records(msgpack.packb((records.KEY_SET, 0, b"k", b"v", 0)))
    assert stores.keys.watch_version(0, b"k") == 1


def test_ids_are_forgotten_behind_as_many_events():
    event = (records.EVENT_LOGGED, b"a", 1, T, b"seen", b"x", None, b"id")
    more = [(*event[:2], seq, T, b"seen", b"x", None, None) for seq in range(2, EVENT_IDS_REMEMBERED + 1)]
    state, _ = assert_same(*log_of(packed((T, record) for record in (event, *more))))
    assert list(state["ids"][b"a"]) == [b"id"]
    more.append((*event[:2], EVENT_IDS_REMEMBERED + 1, T, b"seen", b"x", None, None))
    state, _ = assert_same(*log_of(packed((T, record) for record in (event, *more))))
    assert state["ids"] == {b"a": None}


def test_only_stores_themselves_are_gone_into():
    stores = Stores()
    assert replayer_of(stores.apply) is not None
    assert replayer_of(lambda record: stores.apply(record)) is None
    assert replayer_of(stores.apply_all) is None
    assert replayer_of([].append) is None

    class Others(Stores):
        """Whose `apply` may be anything."""

    assert replayer_of(Others().apply) is None


# -- what is not ---------------------------------------------------------------------------------------


def hostile_frames(seed: int, *, framed: bool) -> tuple[Random, list[Any]]:
    """What is right but for one thing at most, without records that fill the memory with zeros if told to."""
    random = Random(seed)
    changes = Changes(random, fields_max=60)
    frames = [changes.frame() if framed else changes.record() for _ in range(random.choice([3, 10, 40]))]
    if framed:
        frames = [(now_ms, *filter(_is_bounded, found)) for now_ms, *found in frames]
        frames = [frame for frame in frames if len(frame) > 1] or [(T, *session())]
    else:
        frames = [record for record in frames if _is_bounded(record)] or list(session())
    return random, frames


def _is_bounded(record: Record) -> bool:
    return record[0] not in (records.KEY_RANGE_SET, records.NAMESPACE_CREATED)


def same_refusals(seeds: Sequence[int], *, framed: bool, fields: bool) -> dict[str, int]:
    """How often what came of it, over all seeds."""
    counts: dict[str, int] = {}
    for seed in seeds:
        random, frames = hostile_frames(seed, framed=framed)
        if fields:
            index = random.randrange(len(frames))
            frames[index] = spoilt(frames[index], random, framed=framed)
            payload = packed(frames)
        else:
            payload = mutated(packed(frames), random)
        first = packed([(T, *session())] if framed else session())
        disk, manifest = (log_of if framed else base_of)(first, payload)
        found = assert_same(disk, manifest)
        name = found[0].__name__ if isinstance(found[0], type) else "loaded"
        counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.parametrize("framed", [True, False], ids=["log", "base"])
@pytest.mark.parametrize("fields", [True, False], ids=["fields", "bytes"])
def test_hostile_payloads_are_taken_or_refused_as_by_the_reference(framed: bool, fields: bool):
    counts = same_refusals(range(400), framed=framed, fields=fields)
    assert counts["loaded"] > 20
    assert counts["CorruptLogError"] > 20
    assert len(counts) > 3, "and bugs of several kinds, as the stores call them"


@pytest.mark.soak
def test_hostile_payloads_for_long(soak_seconds: int):
    for start in range(10**6, 10**6 + 20 * soak_seconds, 10):
        for framed in (True, False):
            same_refusals(range(start, start + 5), framed=framed, fields=True)
            same_refusals(range(start + 5, start + 10), framed=framed, fields=False)


@pytest.mark.parametrize("framed", [True, False], ids=["log", "base"])
def test_each_place_of_each_plain_record_with_each_hostile_value(framed: bool):
    for record in (*PLAIN, BEGUN[0], (records.SUMMARY_SET, b"a", b"t", 1, T)):
        for index in range(len(record)):
            for value in HOSTILE:
                wrong = (*record[:index], value, *record[index + 1 :])
                payload = packed([(T, wrong), (T, PLAIN[0])] if framed else [wrong, PLAIN[0]])
                begun = packed([(T, *BEGUN)] if framed else BEGUN)
                assert_same(*(log_of if framed else base_of)(begun, payload))


@pytest.mark.parametrize("framed", [True, False], ids=["log", "base"])
def test_each_prefix_of_a_payload(framed: bool):
    """Nothing is read that lies behind its end: the bytes there would complete it."""
    whole = packed([(T, record) for record in PLAIN[:3] + PLAIN[4:]] if framed else PLAIN[:3] + PLAIN[4:])
    begun = packed([(T, *BEGUN)] if framed else BEGUN)
    for size in range(len(whole)):
        assert_same(*(log_of if framed else base_of)(begun, whole[:size]))


LONG = b"\xc6\xff\xff\xff\xff", b"\xc5\xff\xff", b"\xc4\xff", b"\xc6", b"\xc5\x01"
HEADS = b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\x9f", b"\xdd", b"\xdc\x00", b"\xdd\x00\x00\x00\x00"


@pytest.mark.parametrize(
    "end", [*LONG, *HEADS, b"\xcf\xff", b"\xd3", b"\xc1", b"\xd9\x05abc", b"\x81\xc0", b"\xc7\x01"]
)
def test_lengths_beyond_the_end(end: bytes):
    turn = msgpack.packb((T, PLAIN[0]))
    begun = packed([(T, *BEGUN)])
    for cut in range(len(turn)):
        assert_same(*log_of(begun, turn + turn[:cut] + end))
        assert_same(*base_of(packed(BEGUN), turn[10:cut] + end))


@pytest.mark.parametrize(
    "payload",
    [
        b"\xdc\x00\x02\xcf\x00\x00\x01\x8b\xcf\xe5\x68\x00\xdc\x00\x05\xcc\x32\xd3\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\xc6\x00\x00\x00\x01k\xc5\x00\x01v\xd0\x00",
        b"\xdd\x00\x00\x00\x02\xd1\xff\xfe\xdd\x00\x00\x00\x05\xd2\x00\x00\x00\x32\xcd\x00\x0f\xc5\x00\x01k\xc4\x00\x00",
    ],
)
def test_numbers_and_lengths_may_be_written_longer_than_needed(payload: bytes):
    state, report = assert_same(*log_of(payload))
    assert report.records == 1
    assert sum(map(len, state["dumps"])) == 1


# -- places and order ----------------------------------------------------------------------------------


def test_what_is_wrong_is_named_by_its_place():
    turn, key = msgpack.packb((T, PLAIN[0])), msgpack.packb((T, (records.KEY_APPENDED, 0, b"k", b"tail")))
    begun = packed([(T, *session())])
    disk, manifest = log_of(begun, turn + key + turn + msgpack.packb((T, (63,))) + turn)
    with pytest.raises(CorruptLogError) as refused:
        recover(disk, manifest, Stores().apply)
    assert refused.value.position == 64 + 2 * BLOCK_HEADER_BYTES + len(begun + turn + key + turn)
    turn, key = (msgpack.packb(record) for record in (PLAIN[0], (records.KEY_APPENDED, 0, b"k", b"tail")))
    begun = packed(session())
    disk, manifest = base_of(begun, turn + key + turn + msgpack.packb((63,)) + turn)
    with pytest.raises(CorruptLogError) as refused:
        recover(disk, manifest, Stores().apply)
    assert refused.value.position == BASE_HEADER_BYTES + 2 * BLOCK_HEADER_BYTES + len(begun + turn + key + turn)


def test_an_equal_frame_before_it_is_not_what_is_wrong():
    """1.0 equals 1, and True does, and neither is a time."""
    for wrong in (1.0, True):
        frames = [(1, PLAIN[6]), (wrong, PLAIN[6])]
        kind, text, *_ = assert_same(*log_of(packed(frames)))
        assert kind is CorruptLogError
        assert str(64 + BLOCK_HEADER_BYTES + len(msgpack.packb(frames[0]))) in text


@pytest.mark.parametrize("kind", [True, 1.0, 50.0])
def test_a_kind_is_an_integer(kind: Any):
    found = assert_same(*log_of(packed([(T, (kind, b"s", 10, 0, T, 0))])))
    assert found[0] is CorruptLogError


def test_a_bug_behind_damage_is_not_what_is_told():
    """The whole block is looked at before anything of it that might fail."""
    missing = (records.TURN_APPENDED, b"missing", b"user", b"x", T, None, None)
    assert assert_same(*log_of(packed([(T, missing)])))[0] is KeyError
    assert assert_same(*log_of(packed([(T, PLAIN[6]), (T, missing)]) + b"\xc1"))[0] is CorruptLogError
    assert assert_same(*base_of(packed([PLAIN[6], missing])))[0] is KeyError
    assert assert_same(*base_of(packed([PLAIN[6], missing, (63,)])))[0] is CorruptLogError


def test_a_flush_is_seen_by_what_comes_behind_it():
    again = (*session(), PLAIN[0], (records.NOTE_SET, b"s", b"k", b"v", 0))
    for flush in ((records.ALL_FLUSHED,), (records.DATABASE_FLUSHED, 0), (records.CONVERSATION_DROPPED, b"s")):
        frames = [(T, record) for record in (*again, *PLAIN, flush, *again, *PLAIN)]
        _, report = assert_same(*log_of(packed(frames)))
        assert report.records == len(frames)


# -- small blocks --------------------------------------------------------------------------------------


def many_blocks() -> tuple[SimulatedDisk, Manifest]:
    """Two segments of small blocks, with a closing header inside, and at the end of the first what is void."""
    disk = SimulatedDisk(Random(1))
    first = [packed([(T, *session())]), packed([(T + 1, record) for record in PLAIN[4:6]])]
    second = [packed([(T + 2, PLAIN[0])]), packed([(T + 3, PLAIN[1]), (T + 4, (records.KEY_APPENDED, 0, b"k", b"x"))])]
    blocks = [part for payload in (*first, b"", second[0]) for part in (payload, b"")]
    manifest = make_log(disk, blocks, [part for payload in (*second, b"") for part in (payload, b"")])
    name, start = manifest.segments[0].name, manifest.segments[1].start
    place = len(disk.file(name))
    void = packed([(T + 9, PLAIN[6])])
    disk.file(name)[place:] = pack_block_header(LOG_ID, 1, place, start, 0, void) + void
    return disk, manifest


def test_small_blocks_are_taken_in_a_row():
    disk, manifest = many_blocks()
    _, report = assert_same(disk, manifest)
    assert (report.blocks, report.frames, report.records, report.closed) == (7, 7, 7, True)
    assert report.last_time_ms == T + 4
    stores = Stores()
    replayer = replayer_of(stores.apply)
    held, end = bytes(disk.file(manifest.segments[0].name))[64:], manifest.segments[1].start
    sizes = held.index(pack_block_header(LOG_ID, 1, 64, 0, 0, b"")[:4], 1)
    tail = Tail(-1, LOG_ID, 1)
    assert replayer.take_blocks(tail, held, 65, 0, end) == 0, "it belongs elsewhere"
    assert replayer.take_blocks(tail, held, 64, 1, end) == 0
    assert replayer.take_blocks(Tail(-1, LOG_ID, 2), held, 64, 0, end) == 0
    assert replayer.take_blocks(tail, held, 64, 0, sizes - 41) == 0, "it reaches over the end"
    assert replayer.take_blocks(tail, held[: sizes - 1], 64, 0, end) == 0, "it is not all there"
    assert replayer.block_count == replayer.frame_count == replayer.payload_bytes == 0
    assert not stores.conv.sessions
    assert replayer.take_blocks(tail, held, 64, 0, sizes - 40) == sizes
    assert (replayer.block_count, replayer.frame_count, replayer.payload_bytes) == (1, 1, sizes - 40)
    void = 40 + len(packed([(T + 9, PLAIN[6])]))
    taken = replayer.take_blocks(tail, held[sizes:], 64 + sizes, sizes - 40, end)
    assert taken == len(held) - sizes - void
    assert (replayer.block_count, replayer.closed, replayer.begun) == (
        3,
        False,
        taken - 40 - len(packed([(T, PLAIN[0])])),
    )


def test_a_block_that_vouches_for_itself_is_not_taken():
    """Its header is what would be packed, and cannot be right."""
    disk, manifest = many_blocks()
    name, payload = manifest.segments[1].name, packed([(T, PLAIN[0])])
    place, offset = len(disk.file(name)), outcome(disk, manifest, natively=False)[1].offset
    for durable in (offset, offset + 1):
        disk.file(name)[place:] = pack_block_header(LOG_ID, 2, place, offset, durable, payload) + payload
        _, report = assert_same(disk, manifest)
        assert (report.cut is None) == (durable == offset)


@pytest.mark.parametrize("flip", [0x01, 0x80])
def test_small_blocks_with_each_byte_spoilt(flip: int):
    """Cut or refused as the reference has it, whatever a spoilt header says."""
    disk, manifest = many_blocks()
    for segment in manifest.segments:
        whole = bytes(disk.file(segment.name))
        for at in range(len(whole)):
            disk.file(segment.name)[at] ^= flip
            assert_same(disk, manifest)
            disk.file(segment.name)[:] = whole


def test_small_blocks_cut_short_anywhere():
    disk, manifest = many_blocks()
    name = manifest.segments[1].name
    whole = bytes(disk.file(name))
    for size in range(len(whole)):
        for room in (0, 50):
            disk.file(name)[:] = whole[:size] + bytes(room)
            assert_same(disk, manifest)


def test_small_blocks_beyond_what_is_read_at_once():
    """They lie across the borders of what is read, and of what one call takes; larger ones lie between them."""
    random = Random(3)
    changes = Changes(random, fields_max=3000)
    payloads = [packed([changes.frame()]) for _ in range(1500)]
    payloads[700:700] = [packed([(changes.now_ms, (records.KEY_SET, 0, b"large", b"x" * 1_500_000, 0))])]
    _, report = assert_same(*log_of(*payloads))
    assert (report.frames, report.cut) == (1501, None)
    assert report.bytes > 3 << 20
