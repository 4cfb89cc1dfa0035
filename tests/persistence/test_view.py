"""A folder looked at while a log is written: what is seen is one moment, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence import view as views
from amemdb.persistence.codec import pack_block_header
from amemdb.persistence.disk import File
from amemdb.persistence.recovery import recover
from amemdb.persistence.view import FolderView, open_view
from tests.persistence.simulated import Driven, SimulatedDisk, frame

SEEDS = 400
LOG_ID = b"0123456789abcdef"


class BusyFile:
    def __init__(self, file: File, meanwhile: Callable[[], None]) -> None:
        self._file = file
        self._meanwhile = meanwhile

    def read_at(self, position: int, count: int) -> bytes:
        self._meanwhile()
        return self._file.read_at(position, count)

    def size(self) -> int:
        return self._file.size()

    def close(self) -> None:
        self._file.close()


class BusyDisk:
    """A disk on which `meanwhile` is called before whatever the one who looks does."""

    def __init__(self, disk: SimulatedDisk, meanwhile: Callable[[], None]) -> None:
        self._disk = disk
        self._meanwhile = meanwhile

    def open(self, name: str, *, write: bool = False) -> BusyFile:
        self._meanwhile()
        return BusyFile(self._disk.open(name), self._meanwhile)

    def names(self) -> list[str]:
        self._meanwhile()
        return self._disk.names()

    def path(self, name: str) -> str:
        return self._disk.path(name)


def seen(view: FolderView | None) -> list[int]:
    """The numbers of the frames in the view, which a start would take as it is."""
    assert view is not None
    numbers: list[int] = []
    with view:
        report = recover(view, view.manifest, lambda record: numbers.append(record[2]))
    assert report.cut is None
    return numbers


class Work:
    """Writes and steps of the log at random, `turns` of them at most: each file makes for more of them."""

    def __init__(self, driven: Driven, random: Random) -> None:
        self.turns = 0
        self.written = 0
        self._driven = driven
        self._random = random

    def __call__(self, chance: float = 0.5) -> None:
        driven, random = self._driven, self._random
        while self.turns and random.random() < chance:
            self.turns -= 1
            match random.randrange(3):
                case 0:
                    self.written += driven.write(self.written, random.choice([0, 150, 300]))
                case 1 if driven.step is not None or driven.sync is not None:
                    driven.finish()
                case _:
                    driven.now += 0.3
                    driven.begin()


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_all_that_was_answered_before_is_seen(policy):
    """Small segments: one follows another, is cut off or given up, at any point of the looking."""
    retried = 0
    for seed in range(SEEDS):
        random = Random(seed)
        disk = SimulatedDisk(random)
        driven = Driven(disk, policy, segment_bytes_max=random.choice([300, 600, 5000]), reserve=2048)
        work = Work(driven, random)
        work.turns = 120
        work(1.0)
        while driven.step is not None or driven.sync is not None:
            driven.finish()
        driven.run()
        answered = work.written
        before = manifests.read(disk)
        work.turns = 120
        view = open_view(BusyDisk(disk, work), in_use=True)  # type: ignore[arg-type]
        assert view is not None
        retried += view.manifest != before
        numbers = seen(view)
        assert numbers == list(range(len(numbers)))
        assert answered <= len(numbers) <= work.written, f"seed {seed}"
    assert retried > SEEDS / 40, "nothing ever changed in between"


def log_of(*sizes: int) -> tuple[SimulatedDisk, str, int]:
    """A log of frames of those sizes; the file, and where its blocks end."""
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, reserve=4096)
    for number, size in enumerate(sizes):
        driven.write(number, size)
        driven.run()
    return disk, driven.log.segments[0].name, driven.log.files.current.position


def put_block(disk: SimulatedDisk, name: str, position: int, number: int) -> bytes:
    """The bytes of the next block."""
    offset = sum(len(frame(before)) for before in range(number))
    payload = frame(number)
    return pack_block_header(LOG_ID, 1, position, offset, 0, payload) + payload


def test_a_block_that_is_being_written_is_not_seen():
    disk, name, position = log_of(10, 10)
    block = put_block(disk, name, position, 2)
    for count in range(1, len(block)):
        data = disk.file(name)
        data[position : position + len(block)] = block[:count].ljust(len(block), b"\0")
        whole = not block[count:].strip(b"\0")
        assert seen(open_view(disk, in_use=True)) == [0, 1, *([2] if whole else [])]
        assert seen_as_it_is(disk) == (not whole)


def seen_as_it_is(disk: SimulatedDisk) -> bool:
    """Whether there is a torn tail for one who does not know of a server."""
    view = open_view(disk, in_use=False)
    assert view is not None
    with view:
        return recover(view, view.manifest, lambda record: None).cut is not None


def test_a_block_that_is_completed_while_it_is_copied():
    """The copy has the beginning of a block from before it was written, and the next block from after."""
    disk, name, position = log_of(10, 10)
    third = put_block(disk, name, position, 2)
    fourth = put_block(disk, name, position + len(third), 3)
    data = disk.file(name)
    data[position : position + len(third + fourth)] = bytes(len(third)) + fourth
    file = disk.open(name)
    reads = 0

    def complete() -> None:
        nonlocal reads
        reads += 1
        if reads > 2:  # once for where zeros begin, once for the copy, and once more for each of a second one
            data[position : position + len(third + fourth)] = third + fourth

    manifest = manifests.read(disk)
    assert manifest is not None
    view = FolderView(disk, manifest)
    view._files[name] = BusyFile(file, complete)  # type: ignore[assignment]
    view.settle(None)
    assert seen(view) == [0, 1, 2, 3]
    assert reads == 4


def test_damage_is_not_taken_for_a_block_that_is_being_written():
    disk, name, _ = log_of(10, 10, 10)
    disk.file(name)[80] ^= 1
    view = open_view(disk, in_use=True)
    assert view is not None
    with view, pytest.raises(CorruptLogError) as refused:
        recover(view, view.manifest, lambda record: None)
    assert refused.value.position == 64


def test_files_stay_readable_when_they_are_removed():
    disk, name, _ = log_of(10, 10)
    view = open_view(disk, in_use=False)
    disk.remove(name)
    assert seen(view) == [0, 1]


def test_nothing_can_be_changed_through_a_view():
    disk, name, _ = log_of(10)
    view = open_view(disk, in_use=True)
    assert view is not None
    with view:
        file = view.open(name)
        for change in (
            lambda: view.open(name, write=True),
            lambda: view.create("x"),
            lambda: view.remove(name),
            lambda: view.rename(name, "x"),
            lambda: view.lock("x"),
            view.sync_folder,
            lambda: file.write_at(0, b"x"),
            lambda: file.truncate(0),
            lambda: file.allocate(0, 1),
            file.sync,
        ):
            with pytest.raises(OSError, match="Read-only"):
                change()


def test_a_log_that_never_stands_still_is_given_up(monkeypatch):
    disk, _, _ = log_of(10)
    manifest = manifests.read(disk)
    assert manifest is not None
    count = 0

    def read(disk: object) -> manifests.Manifest:
        nonlocal count
        count += 1
        return manifests.Manifest(manifest.log_id, (manifests.Segment(1, count),), 9)

    monkeypatch.setattr(views.manifests, "read", read)
    with pytest.raises(StorageError, match="changes faster than it can be read"):
        open_view(disk, in_use=True)


def test_a_folder_without_a_log():
    assert open_view(SimulatedDisk(Random(1)), in_use=True) is None


def test_a_large_last_segment_is_copied_to_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(views, "COPIED_IN_MEMORY_MAX", 100)
    disk, _, _ = log_of(10, 3_000_000, 10)
    assert seen(open_view(disk, in_use=True, room=tmp_path)) == [0, 1, 2]
    assert list(tmp_path.iterdir()) == []
