"""What the kernel saw: under `always` the fdatasync that covers a write has returned before its reply leaves.

A kill cannot show this, as the page cache survives a kill. The server runs under strace, one client sends 1,000
writes one by one, and the trace is read in order: between the block that holds a write and the reply to it there must
be an fdatasync of the log's file that began after the write and has returned.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import redis
from process import ServerProcess

WRITES = 1000
TRACED = "write,pwrite64,pwritev,fdatasync,sendto,sendmsg,writev"
CALL = re.compile(r"^(\d+) +(\w+)\((\d+)(.*)$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_every_reply_under_always_follows_the_fsync_that_covers_it(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with ServerProcess(tmp_path / "data", "--appendfsync", "always") as server:
        strace = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-s",
                "64",
                "-xx",
                "-e",
                f"trace={TRACED}",
                "-o",
                str(trace),
                "-p",
                str(server.pid),
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            with redis.Redis(port=server.port) as client:
                client.execute_command("AMEM.CONV.CREATE", "s")
                server.wait_until(lambda: trace.exists() and trace.stat().st_size > 0, "strace to attach", client.ping)
                for number in range(WRITES):
                    client.execute_command("AMEM.CONV.APPEND", "s", "user", f"mark-{number:06d}")
        finally:
            strace.send_signal(signal.SIGINT)
            strace.wait(timeout=30)
    events = list(read_trace(trace.read_text()))
    checked = check_order(events)
    assert checked >= WRITES, f"only {checked} of {WRITES} writes were seen in the trace"


def read_trace(text: str) -> list[tuple[str, str, int, str]]:
    """`(begin|end, call, file descriptor, data)` in the order in which the kernel saw them."""
    events: list[tuple[str, str, int, str]] = []
    unfinished: dict[str, tuple[str, int, str]] = {}
    for line in text.splitlines():
        if match := CALL.match(line):
            thread, call, descriptor, rest = match.groups()
            events.append(("begin", call, int(descriptor), rest))
            if "<unfinished ...>" in rest:
                unfinished[thread] = (call, int(descriptor), rest)
            else:
                events.append(("end", call, int(descriptor), rest))
        elif match := RESUMED.match(line):
            thread, call, rest = match.groups()
            if thread in unfinished:
                _, descriptor, begun = unfinished.pop(thread)
                events.append(("end", call, descriptor, begun + rest))
    return events


def check_order(events: list[tuple[str, str, int, str]]) -> int:
    """How many replies `+OK` were sent, each checked to follow a complete fdatasync of the block before it."""
    ok = "".join(f"\\x{byte:02x}" for byte in b"+OK\r\n")
    covered = written = syncing = replies = 0
    files: set[int] = set()
    for edge, call, descriptor, data in events:
        if edge == "begin" and call in ("sendto", "sendmsg", "write", "writev") and ok in data:
            assert covered == written, f"reply {replies} left with {written - covered} blocks not yet on disk"
            replies += 1
        elif edge == "end" and call in ("pwrite64", "pwritev"):
            files.add(descriptor)
            written += 1
        elif edge == "begin" and call == "fdatasync" and descriptor in files:
            syncing = written
        elif edge == "end" and call == "fdatasync" and descriptor in files:
            covered = syncing
    return replies


def test_the_checker_finds_a_reply_that_is_too_early() -> None:
    ok = "".join(f"\\x{byte:02x}" for byte in b"+OK\r\n")
    early = f'1 pwrite64(7, "x", 1, 0) = 1\n2 sendto(9, "{ok}", 5) = 5\n1 fdatasync(7) = 0\n'
    with pytest.raises(AssertionError, match="not yet on disk"):
        check_order(read_trace(early))
    overlapping = (
        f'1 pwrite64(7, "x", 1, 0) = 1\n1 fdatasync(7 <unfinished ...>\n2 sendto(9, "{ok}", 5) = 5\n'
        "1 <... fdatasync resumed>) = 0\n"
    )
    with pytest.raises(AssertionError, match="not yet on disk"):
        check_order(read_trace(overlapping))
