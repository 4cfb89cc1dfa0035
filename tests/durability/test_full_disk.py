"""The disk is full under load: writes are refused and reads served, for as long as it lasts, and then all is well.

A small tmpfs, a limit on the size of files, and writes that fail after taking a part. No restart is needed for writes
to come back, nothing that was refused is there, and a restart finds what was acknowledged. A crash while the disk is
full is no different. With `--soak` it stays full for a minute.
"""

from __future__ import annotations

import resource
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.durability.faults import Faults
from tests.durability.load import Load, check
from tests.durability.wire import Wire, is_error, log_told
from tests.process import ServerProcess

POLICIES = ("always", "everysec", "no")
APPENDERS = 3
BALLAST_BYTES = 6 << 20
OPTIONS = ("--log-segment-bytes", "512kb", "--log-reserve-bytes", "128kb")
FULL_S, FULL_SOAK_S = 1.0, 60.0
LARGE_BYTES = 200_000
"""There may always be room for a small write; for this, in the end, not."""
STEADY_S = 1.3
"""Longer than it takes the log to try again for a new file."""
READ_S_MAX = 2.0
"""Far above what a read may take; a processor that is busy with other tests must not fail this one."""
NEW = [0] * APPENDERS


def becomes_full(server: ServerProcess, load: Load) -> None:
    """Wait until nothing is taken any more. Before that, one file that follows another gives some room back."""
    steady, since, refused = load.acknowledged, time.monotonic(), [a.refused for a in load.appenders]

    def is_steady() -> bool:
        nonlocal steady, since, refused
        load.check()
        if load.acknowledged != steady:
            steady, since, refused = load.acknowledged, time.monotonic(), [a.refused for a in load.appenders]
        more = [appender.refused > before for appender, before in zip(load.appenders, refused, strict=True)]
        return all(more) and time.monotonic() > since + STEADY_S

    server.wait_until(is_steady, "a full disk")


def stays_full(server: ServerProcess, load: Load, seconds: float) -> None:
    """For so long no write is taken, and every read is served at once."""
    reader, before = load.reader, load.acknowledged
    served, reader.slowest_s = reader.served, 0.0
    told = False
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        load.check()
        with closing(Wire(server.port)) as wire:
            write, text = wire.ask([b"SET", b"k", bytes(LARGE_BYTES)], [b"INFO", b"persistence"])
        assert write == ("error", "MISCONF Errors writing to the log: No space left on device")
        told = told or (b"aof_last_write_status:err" in text and b"log_error:No space left on device" in text)
        time.sleep(0.05)
    assert told, "INFO does not tell of it"
    assert load.acknowledged == before, "a write was acknowledged by a full disk"
    assert all("MISCONF" in refusal or "EXECABORT" in refusal for a in load.appenders for refusal in a.refusals)
    assert reader.served > served
    assert reader.refused == 0, "all that is applied is durable, so it can be read"
    assert reader.slowest_s < READ_S_MAX


def refuses(server: ServerProcess, policy: str, reason: str) -> None:
    """A write is refused, and under `always` a read as well while what was applied last is not on disk."""
    with closing(Wire(server.port)) as wire:
        for _ in range(3):
            write, read, text, ping = wire.ask(
                [b"SET", b"k", b"v"], [b"GET", b"k"], [b"INFO", b"persistence"], [b"PING"]
            )
            assert is_error(write)
            assert write[1].startswith(f"MISCONF Errors writing to the log: {reason}")
            must_refuse = policy == "always" and b"log_undurable_bytes:0\r\n" not in text
            assert is_error(read) if must_refuse else read is None
            assert ping == b"PONG"


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
def test_a_full_file_system(small_disk: Path, policy: str, soak_seconds: int) -> None:
    ballast = small_disk / "ballast"
    options = ("--appendfsync", policy, *OPTIONS)
    with ServerProcess(small_disk / "data", *options) as server:
        ballast.write_bytes(bytes(BALLAST_BYTES))
        with Load(server.port, NEW) as load:
            becomes_full(server, load)
            stays_full(server, load, FULL_SOAK_S if soak_seconds else FULL_S)
            full = load.acknowledged
            ballast.unlink()
            server.wait_until(load.all_beyond(full), "writes to come back")
            assert log_told(server.port)["aof_last_write_status"] == "ok"
            assert server.output.count("writes are refused") == 1, "one line for a full disk, not one for each refusal"
            with suppress(OSError):
                ballast.write_bytes(bytes(BALLAST_BYTES))
            becomes_full(server, load)
            server.kill()
        server.start()
        counts = check(server.port, load)
        with Load(server.port, counts) as load:
            becomes_full(server, load)
            stays_full(server, load, 0.2)
            full = load.acknowledged
            ballast.unlink()
            server.wait_until(load.all_beyond(full), "writes to come back after a restart on a full disk")
        counts = check(server.port, load)
        assert server.stop() == 0
        server.start()
        assert check(server.port, load) == counts


@pytest.mark.parametrize("policy", POLICIES)
def test_a_limit_on_the_size_of_files(tmp_path: Path, policy: str) -> None:
    """As `ulimit -f` sets it, put below what the log has reserved, so that writes fail and not just reservations."""
    with ServerProcess(tmp_path / "data", "--appendfsync", policy, *OPTIONS) as server:
        with Load(server.port, NEW) as load:
            server.wait_until(load.all_beyond(NEW, by=20), "writes")
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (2048, resource.RLIM_INFINITY))
            server.wait_until(lambda: log_told(server.port)["aof_last_write_status"] == "err", "the limit to be felt")
            refuses(server, policy, "File too large")
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            server.wait_until(load.all_beyond(load.acknowledged), "writes to come back")
        counts = check(server.port, load)
        server.kill()
        server.start()
        assert check(server.port, load) == counts


@pytest.mark.parametrize("policy", POLICIES)
def test_a_disk_that_fills_in_the_middle_of_a_write(tmp_path: Path, faults: Faults, policy: str) -> None:
    """Reserved room that is not there after all: the write takes 20 bytes and then fails, again and again."""
    with ServerProcess(tmp_path / "data", "--appendfsync", policy, *OPTIONS, environment=faults.environment) as server:
        with Load(server.port, NEW) as load:
            server.wait_until(load.all_beyond(NEW, by=20), "writes")
            faults.fill()
            server.wait_until(lambda: log_told(server.port)["aof_last_write_status"] == "err", "a write to fail")
            refuses(server, policy, "No space left on device")
            time.sleep(0.3)  # what was answered before has been read by then
            full = load.acknowledged
            time.sleep(1.2)  # a try to make a new file fails as well
            assert load.acknowledged == full, "a write was acknowledged by a full disk"
            faults.heal()
            server.wait_until(load.all_beyond(full), "writes to come back")
            server.kill()
        server.start()
        check(server.port, load)
