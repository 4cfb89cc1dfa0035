"""The real process while its wall clock jumps, and after it was stopped for a while: nothing is lost, timers go on.

What expires follows the wall clock, as `PXAT` promises. Everything internal goes by the other one, so that no jump
makes the server hurry, stall or count backwards.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.durability.faults import Faults
from tests.durability.load import Load, check
from tests.durability.wire import Wire, info
from tests.process import ServerProcess
from tests.rig import START_MS

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
NEW = [0, 0]
STOPPED_S = 2.0


def wait_for_removal(server: ServerProcess, wire: Wire, count: int) -> None:
    """Until so many keys and sessions have been removed, and not only hidden, because their time had come."""
    server.wait_until(lambda: int(info(wire, "stats")["expired_keys"]) >= count, f"{count} to be removed")


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_jumps_both_ways(tmp_path: Path, faults: Faults, policy: str) -> None:
    faults.now_ms = START_MS
    with ServerProcess(tmp_path / "data", "--appendfsync", policy, environment=faults.environment) as server:
        with closing(Wire(server.port)) as wire, Load(server.port, NEW) as load:
            wire.ask([b"SET", b"short", b"v", b"EX", b"100"], [b"SET", b"long", b"v", b"EX", b"10000"])
            wire.ask([b"AMEM.CONV.CREATE", b"s", b"TTL", b"100"], [b"AMEM.WORK.SET", b"s", b"n", b"v"])
            wire.ask([b"AMEM.EPIS.LOG", b"a", b"t", b"first"])

            faults.now_ms = START_MS - HOUR_MS
            assert wire.ask([b"PTTL", b"short"]) == [100_000 + HOUR_MS], "later by the jump, as the deadline stands"
            assert wire.ask([b"AMEM.EPIS.LOG", b"a", b"t", b"second"]) == [b"OK"]
            stats = wire.ask([b"AMEM.EPIS.STATS", b"a"])[0]
            labelled = dict(zip(stats[::2], stats[1::2], strict=True))
            assert labelled[b"oldest_ts"] == START_MS - HOUR_MS
            assert labelled[b"newest_ts"] == START_MS
            server.wait_until(lambda: server.output.count("the system clock jumped by -3600.0 s") == 1, "a warning")

            faults.now_ms = START_MS + 5000
            assert wire.ask([b"PTTL", b"short"]) == [95_000]
            faults.now_ms = START_MS + HOUR_MS
            assert wire.ask([b"GET", b"short"], [b"AMEM.WORK.GET", b"s", b"n"]) == [None, None]
            wait_for_removal(server, wire, 2)
            faults.now_ms = START_MS
            assert wire.ask([b"GET", b"short"], [b"GET", b"long"]) == [None, b"v"], "what was removed stays removed"
            assert wire.ask([b"AMEM.CONV.APPEND", b"s", b"user", b"x"])[0][1].startswith("ERR session not found")

            faults.now_ms = START_MS + 3 * YEAR_MS
            wait_for_removal(server, wire, 3)
            faults.now_ms = START_MS
            server.wait_until(load.all_beyond(load.acknowledged, by=20), "writes")
            assert 0 <= int(info(wire, "server")["uptime_in_seconds"]) < 300
        server.kill()
        server.start()
        with closing(Wire(server.port)) as wire:
            check(server.port, load)
            assert wire.ask([b"GET", b"short"], [b"GET", b"long"]) == [None, None]
            events = wire.ask([b"AMEM.EPIS.QUERY", b"a"])[0]
            assert [event[5] for event in events] == [b"second", b"first"], "by time"


def test_a_server_started_at_an_earlier_time(tmp_path: Path, faults: Faults) -> None:
    """The clock is behind what the log has seen: by seconds it stands still, by more it is believed."""
    faults.now_ms = START_MS
    with ServerProcess(tmp_path / "data", environment=faults.environment) as server:
        with closing(Wire(server.port)) as wire:
            wire.ask([b"SET", b"k", b"v", b"PX", b"1000"], [b"SET", b"l", b"v", b"EX", b"10000"])
            faults.now_ms = START_MS + 20_000
            assert wire.ask([b"GET", b"k"]) == [None]
            wait_for_removal(server, wire, 1)
            wire.ask([b"SET", b"m", b"v", b"PX", b"1000"])
        server.kill()
        faults.now_ms = START_MS
        server.start()
        with closing(Wire(server.port)) as wire:
            assert wire.ask([b"GET", b"k"], [b"PTTL", b"m"]) == [None, 1000], "time does not fall by 20 s"
            faults.now_ms = START_MS + 20_500
            assert wire.ask([b"PTTL", b"m"]) == [500]
        server.kill()
        faults.now_ms = START_MS - HOUR_MS
        server.start()
        with closing(Wire(server.port)) as wire:
            assert wire.ask([b"GET", b"k"], [b"PTTL", b"l"]) == [None, HOUR_MS + 10_000_000]


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_stopped_and_continued(tmp_path: Path, faults: Faults, policy: str) -> None:
    """SIGSTOP under load. Time passes for the wall clock meanwhile, and nobody is thrown out for being silent."""
    faults.now_ms = START_MS
    options = ("--appendfsync", policy, "--timeout", "60", "--output-stall-timeout", "5")
    with ServerProcess(tmp_path / "data", *options, environment=faults.environment) as server:
        with closing(Wire(server.port)) as wire, Load(server.port, NEW) as load:
            for key in range(500):
                wire.ask([b"SET", b"k%d" % key, b"v", b"PX", b"%d" % (1000 + key)])
            server.wait_until(load.all_beyond(NEW), "writes")
            os.kill(server.pid, signal.SIGSTOP)
            try:
                faults.now_ms = START_MS + 5000
                time.sleep(STOPPED_S)
                told = load.acknowledged
                wire.send([[b"GET", b"k1"], [b"SET", b"after", b"v", b"PX", b"50000"]])
            finally:
                os.kill(server.pid, signal.SIGCONT)
            assert [wire.receive(), wire.receive()] == [None, b"OK"]
            server.wait_until(load.all_beyond(told, by=20), "writes to go on")
            wait_for_removal(server, wire, 500)
            assert wire.ask([b"PTTL", b"after"]) == [50_000]
            stats = info(wire, "stats")
            assert int(stats["event_loop_lag_max_usec"]) > STOPPED_S * 500_000, "it was late, and says so"
            server.wait_until(lambda: int(info(wire, "stats")["event_loop_lag_usec"]) < 100_000, "ticks on time")
        server.kill()
        server.start()
        check(server.port, load)
