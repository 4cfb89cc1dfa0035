"""A disk that takes writes and cannot sync them: nothing is told that a crash could take back, and it heals by itself.

`fdatasync` of the real process fails on command, or hangs. Under `always` whatever waits for it goes on waiting, and
reads are refused as well while something is applied that is not on disk; under `everysec` reads go on. When syncs work
again so does everything, without a restart, and a restart finds all of it.
"""

from __future__ import annotations

import errno
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.durability.faults import Faults
from tests.durability.load import Load, check
from tests.durability.wire import Wire, is_error, log_told
from tests.process import ServerProcess

POLICIES = ("always", "everysec")
"""Under `no` nobody waits for a sync, and hardly any is made."""
NEW = [0, 0, 0]
FAILS_S, FAILS_SOAK_S = 1.5, 60.0
SETTLE_S = 0.3
"""What has been answered is read by clients in this time."""


def begin_to_fail(server: ServerProcess, faults: Faults, load: Load) -> list[int]:
    """Let syncs fail; what was acknowledged by the time that the server has seen it."""
    server.wait_until(load.all_beyond(NEW, by=20), "writes")
    faults.fail(syncs=errno.EIO)
    server.wait_until(lambda: log_told(server.port)["log_error"] == "Input/output error", "a sync to fail")
    time.sleep(SETTLE_S)
    return load.acknowledged


@pytest.mark.soak
@pytest.mark.parametrize("segment", ["4kb", "64mb"])
@pytest.mark.parametrize("policy", POLICIES)
def test_syncs_that_fail(tmp_path: Path, faults: Faults, policy: str, segment: str, soak_seconds: int) -> None:
    options = ("--appendfsync", policy, "--log-segment-bytes", segment)
    with ServerProcess(tmp_path / "data", *options, environment=faults.environment) as server:
        with Load(server.port, NEW) as load:
            told = begin_to_fail(server, faults, load)
            served, seen, tried = load.reader.served, load.reader.seen, faults.syncs
            until = time.monotonic() + (FAILS_SOAK_S if soak_seconds else FAILS_S)
            with closing(Wire(server.port)) as wire:
                while time.monotonic() < until:
                    write, ping = wire.ask([b"SET", b"k", b"v"], [b"PING"])
                    assert write == ("error", "MISCONF Errors writing to the log: Input/output error")
                    assert ping == b"PONG"
                    if policy == "always":
                        [read] = wire.ask([b"GET", b"k"])
                        assert is_error(read), "what is applied is not on disk, so nothing may be told of it"
                        assert read[1].startswith("MISCONF")
                    load.check()
                    time.sleep(0.05)
            assert load.acknowledged == told
            if policy == "always":
                assert (load.reader.served, load.reader.seen) == (served, seen)
            else:
                assert load.reader.served > served
            server.wait_until(lambda: faults.syncs > tried, "it to try again")
            assert faults.syncs - tried < 20 * (FAILS_SOAK_S if soak_seconds else FAILS_S), "it tries all the time"
            faults.heal()
            server.wait_until(load.all_beyond(told), "writes to come back")
            server.wait_until(lambda: load.reader.seen > seen, "reads to come back")
            assert log_told(server.port)["log_error"] == ""
            assert "nothing was lost" in server.output
            server.kill()
        server.start()
        check(server.port, load)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_kill_while_syncs_fail(tmp_path: Path, faults: Faults, policy: str) -> None:
    """The page cache survives, so all that was acknowledged is there; what waited may be."""
    with ServerProcess(tmp_path / "data", "--appendfsync", policy, environment=faults.environment) as server:
        with Load(server.port, NEW) as load:
            begin_to_fail(server, faults, load)
            server.kill()
        faults.heal()
        server.start()
        counts = check(server.port, load)
        with Load(server.port, counts) as load:
            server.wait_until(load.all_beyond(counts), "writes")
        check(server.port, load)


def test_a_stop_while_syncs_fail_says_what_is_lost(tmp_path: Path, faults: Faults) -> None:
    with ServerProcess(tmp_path / "data", "--appendfsync", "always", environment=faults.environment) as server:
        with Load(server.port, NEW) as load:
            begin_to_fail(server, faults, load)
            assert server.stop() == 1
        assert "bytes of changes could not be written" in server.output
        assert "everything is on disk" not in server.output
        assert "Traceback" not in server.output


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_syncs_that_hang(tmp_path: Path, faults: Faults, policy: str) -> None:
    """Under `always` replies wait for them, and nothing else does."""
    with ServerProcess(tmp_path / "data", "--appendfsync", policy, environment=faults.environment) as server:
        with Load(server.port, NEW) as load:
            server.wait_until(load.all_beyond(NEW, by=20), "writes")
            faults.hold_syncs(0.4)
            time.sleep(SETTLE_S)
            with closing(Wire(server.port)) as wire:
                for _ in range(5):
                    started_s = time.monotonic()
                    assert wire.ask([b"PING"]) == [b"PONG"]
                    assert time.monotonic() - started_s < 0.3, "the loop waits for the disk"
                started_s = time.monotonic()
                assert wire.ask([b"SET", b"k", b"v"]) == [b"OK"]
                if policy == "always":
                    assert time.monotonic() - started_s >= 0.35
            told = load.acknowledged
            server.wait_until(load.all_beyond(told, by=1), "more writes")
            faults.hold_syncs(0.0)
        check(server.port, load)
