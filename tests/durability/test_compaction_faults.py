"""A compaction on a disk that fails or is full, and one whose server is killed: the log stays as it was, and whole.

What was acknowledged is there after the next start, whatever became of the base, and the next compaction makes good.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.durability.compactors import compactors_of, is_compactor
from tests.durability.faults import Faults
from tests.durability.load import Load, check
from tests.durability.wire import Wire, info
from tests.process import ServerProcess

NEW = [0, 0]
VALUES_BYTES = 3 << 20
VALUE_BYTES = 1 << 16
OPTIONS = ("--log-segment-bytes", "64kb", "--log-reserve-bytes", "64kb", "--auto-aof-rewrite-percentage", "0")
DEBUG = ("--enable-debug-command", "yes")


def compact(server: ServerProcess, wire: Wire) -> dict[str, str]:
    """Compact, wait for the end, and give what is told then."""
    [reply] = wire.ask([b"BGREWRITEAOF"])
    assert isinstance(reply, bytes), reply
    server.wait_until(lambda: info(wire, "persistence")["aof_rewrite_in_progress"] == "0", "the compaction to end")
    return info(wire, "persistence")


def bases(folder: Path) -> list[str]:
    """Names of bases, whatever they are worth."""
    return [name for name in os.listdir(folder) if name.endswith(".base")]


def test_a_disk_too_full_for_a_base(small_disk: Path) -> None:
    folder = small_disk / "data"
    with ServerProcess(folder, *OPTIONS, *DEBUG) as server, closing(Wire(server.port)) as wire:
        values = [[b"SET", b"k%d" % key, os.urandom(VALUE_BYTES)] for key in range(VALUES_BYTES // VALUE_BYTES)]
        assert wire.ask(*values) == [b"OK"] * len(values)
        ballast = small_disk / "ballast"
        space = os.statvfs(small_disk)
        ballast.write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - VALUES_BYTES // 2)))
        after = compact(server, wire)
        assert after["aof_last_bgrewrite_status"] == "err"
        assert "No space left on device" in after["compaction_error"]
        assert bases(folder) == []
        assert wire.ask([b"SET", b"after", b"x"]) == [b"OK"], "what the base took is there again"
        server.kill()
        server.start()
        with closing(Wire(server.port)) as again:
            assert [again.ask([b"GET", key])[0] for _, key, _ in values] == [value for _, _, value in values]
            assert again.ask([b"GET", b"after"]) == [b"x"]
            ballast.unlink()
            assert compact(server, again)["aof_last_bgrewrite_status"] == "ok"
            assert len(bases(folder)) == 1
            [digest] = again.ask([b"DEBUG", b"DIGEST"])
        server.kill()
        server.start()
        with closing(Wire(server.port)) as again:
            assert again.ask([b"DEBUG", b"DIGEST"]) == [digest]


@pytest.mark.parametrize("failing", ["syncs", "writes"])
def test_a_disk_that_fails_for_all(tmp_path: Path, faults: Faults, failing: str) -> None:
    """Log and compactor meet the same disk. The log is written again later, the compaction was in vain."""
    folder = tmp_path / "data"
    with ServerProcess(folder, *OPTIONS, "--appendfsync", "always", environment=faults.environment) as server:
        with closing(Wire(server.port)) as wire, Load(server.port, NEW) as load:
            server.wait_until(load.all_beyond(NEW, by=20), "writes")
            wire.ask([b"BGREWRITEAOF"])
            faults.fail(**{failing: errno.EIO})
            server.wait_until(
                lambda: info(wire, "persistence")["aof_rewrite_in_progress"] == "0", "the compaction to end"
            )
            server.wait_until(lambda: info(wire, "persistence")["log_error"] == "Input/output error", "the log to fail")
            failed = info(wire, "persistence")["aof_last_bgrewrite_status"] == "err"
            faults.heal()
            server.wait_until(load.all_beyond(load.acknowledged), "writes to come back")
            assert failed or bases(folder), "a base that is said to be there is not"
            assert compact(server, wire)["aof_last_bgrewrite_status"] == "ok"
            server.wait_until(load.all_beyond(load.acknowledged), "writes")
            server.kill()
        server.start()
        check(server.port, load)


def test_a_kill_takes_the_compactor_along(tmp_path: Path) -> None:
    """At every stage of its life, its start included: nobody else is in the folder when the next server is."""
    folder = tmp_path / "data"
    with ServerProcess(folder, *OPTIONS) as server:
        counts = NEW
        for delay_s in (0.0, 0.02, 0.05, 0.1, 0.2):
            with closing(Wire(server.port)) as wire, Load(server.port, counts) as load:
                server.wait_until(load.all_beyond(counts), "writes")
                wire.ask([b"BGREWRITEAOF"])
                deadline = time.monotonic() + 5
                while not (children := compactors_of(server.pid)) and time.monotonic() < deadline:
                    time.sleep(0.001)
                time.sleep(delay_s)
                server.kill()
            server.start()
            server.wait_until(lambda: not any(map(is_compactor, children)), "the compactor to end")
            counts = check(server.port, load)
        assert len(bases(folder)) <= 1


def test_a_stopped_compactor_holds_nobody_up(tmp_path: Path) -> None:
    """It stands for one that hangs with its disk: writes go on, a kill and a start work, and so does the next one."""
    folder = tmp_path / "data"
    stopped: list[int] = []
    try:
        with ServerProcess(folder, *OPTIONS) as server:
            with closing(Wire(server.port)) as wire, Load(server.port, NEW) as load:
                server.wait_until(load.all_beyond(NEW), "writes")
                wire.ask([b"BGREWRITEAOF"])
                server.wait_until(lambda: bool(compactors_of(server.pid)), "the process to start")
                stopped = compactors_of(server.pid)
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                server.wait_until(load.all_beyond(load.acknowledged, by=100), "writes to go on")
                assert info(wire, "persistence")["aof_rewrite_in_progress"] == "1"
                server.kill()
            server.start()
            counts = check(server.port, load)
            with closing(Wire(server.port)) as wire:
                assert compact(server, wire)["aof_last_bgrewrite_status"] == "ok"
                for pid in stopped:  # it wakes up in a folder that is not its server's any more
                    os.kill(pid, signal.SIGCONT)
                server.wait_until(lambda: not any(map(is_compactor, stopped)), "it to see that")
                assert len(bases(folder)) == 1, "it has made a base all the same"
                assert compact(server, wire)["aof_last_bgrewrite_status"] == "ok"
            server.kill()
            server.start()
            assert check(server.port, load) == counts
            assert len(bases(folder)) == 1
    finally:
        for pid in filter(is_compactor, stopped):
            os.kill(pid, signal.SIGKILL)
