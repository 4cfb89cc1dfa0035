"""The real process killed with -9 under load and started again: nothing acknowledged is missing, nothing comes twice.

The page cache survives the kill, so under every policy each acknowledged write must be there; what was sent and
not answered may be there or not.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import redis
from process import ServerProcess

ROUNDS = 3
WRITERS = 4


class Writer(threading.Thread):
    """Appends numbered turns, events, summary lines and increments until its connection breaks."""

    def __init__(self, port: int, number: int, first: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.name_ = f"w{number}"
        self.sent = self.acknowledged = first

    def run(self) -> None:
        client = redis.Redis(port=self.port, retry=None)
        try:
            while True:
                self.sent += 1
                with client.pipeline(transaction=True) as pipe:
                    pipe.execute_command("AMEM.CONV.APPEND", self.name_, "user", str(self.sent))
                    pipe.execute_command("AMEM.EPIS.LOG", self.name_, "n", str(self.sent))
                    pipe.execute_command("AMEM.SUMMARY.APPEND", self.name_, "x")
                    pipe.incr(self.name_)
                    pipe.execute()
                self.acknowledged = self.sent
        except redis.RedisError:
            client.close()


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
@pytest.mark.parametrize("segment", ["64mb", "4kb"])
def test_kill_9_loses_nothing_acknowledged(tmp_path: Path, policy: str, segment: str) -> None:
    """With the small segments, one follows another all the time: some kills come in the middle of that."""
    counts = [0] * WRITERS
    options = ["--log-segment-bytes", segment, "--log-reserve-bytes", "64kb"]
    for _ in range(ROUNDS):
        with ServerProcess(tmp_path, "--appendfsync", policy, "--enable-debug-command", "yes", *options) as server:
            with redis.Redis(port=server.port) as client:
                for number in range(WRITERS):
                    client.execute_command("AMEM.CONV.CREATE", f"w{number}", "WINDOW", 1_000_000)
            writers = [Writer(server.port, number, counts[number]) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            wait_for_progress(server, writers, counts)
            server.kill()
            for writer in writers:
                writer.join(timeout=30)
        with (
            ServerProcess(tmp_path, "--appendfsync", policy, *options) as server,
            redis.Redis(port=server.port) as client,
        ):
            for number, writer in enumerate(writers):
                counts[number] = check(client, writer)


def wait_for_progress(server: ServerProcess, writers: list[Writer], first: list[int]) -> None:
    """Until each writer has had a good number of answers."""
    server.wait_until(
        lambda: all(writer.acknowledged > begun + 20 for writer, begun in zip(writers, first, strict=True)), "writes"
    )


def check(client: redis.Redis, writer: Writer) -> int:
    """Every count is the same number between what was acknowledged and what was sent; that number."""
    name = writer.name_
    turns = client.execute_command("AMEM.CONV.GET", name)
    numbers = [int(turn[3] if isinstance(turn, list) else turn[b"content"]) for turn in turns]
    count = len(numbers)
    assert numbers == list(range(1, count + 1)), "turns are missing, repeated or out of order"
    assert writer.acknowledged <= count <= writer.sent
    assert int(client.get(name) or 0) == count
    summary = client.execute_command("AMEM.SUMMARY.GET", name)
    assert summary[1] == count
    stats = client.execute_command("AMEM.EPIS.STATS", name)
    total = stats[1] if isinstance(stats, list) else stats[b"total_events"]
    assert total == count
    return count
