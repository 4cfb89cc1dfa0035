"""What the kernel saw: before a reply leaves, the write of its block has returned, under `always` its fdatasync too.

A kill cannot show this, as the page cache survives a kill. The server runs under strace, one client sends 1,000
writes one by one, and the trace is read in order. Under `always`, between the block that holds a write and the reply
to it there must be an fdatasync of the log's file that began after the write and has returned; under `everysec`
the write(2) that holds what the client sent must have returned.
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
TRACED = "read,recvfrom,write,pwrite64,pwritev,pwritev2,fdatasync,sendto,sendmsg,writev"
SENDING = ("sendto", "sendmsg", "write", "writev")
READING = ("read", "recvfrom")
WRITING = ("pwrite64", "pwritev", "pwritev2")
"""By position, which only the log does. The last is what Python's `os.pwritev` calls."""
MARK = re.compile("".join(f"\\\\x{byte:02x}" for byte in b"mark-") + r"((?:\\x3[0-9]){6})")
OK = "".join(f"\\x{byte:02x}" for byte in b"+OK\r\n")
CALL = re.compile(r"^(\d+) +(\w+)\((\d+)(.*)$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_every_reply_under_always_follows_the_fsync_that_covers_it(tmp_path: Path) -> None:
    checked = check_order(list(read_trace(traced(tmp_path, "always"))))
    assert checked >= WRITES, f"only {checked} of {WRITES} writes were seen in the trace"


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_every_reply_under_everysec_follows_the_write_of_its_block(tmp_path: Path) -> None:
    checked = check_written(read_trace(traced(tmp_path, "everysec")))
    assert checked >= WRITES - 1, f"only {checked} of {WRITES} writes were seen in the trace"


def traced(tmp_path: Path, policy: str) -> str:
    """What strace saw of a server while one client wrote."""
    trace = tmp_path / "trace"
    with ServerProcess(tmp_path / "data", "--appendfsync", policy) as server:
        strace = subprocess.Popen(
            [
                "strace",
                "-f",
                "-qq",
                "-s",
                "256",
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
    return trace.read_text()


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
    covered = written = syncing = replies = 0
    files: set[int] = set()
    for edge, call, descriptor, data in events:
        if edge == "begin" and call in SENDING and OK in data:
            assert covered == written, f"reply {replies} left with {written - covered} blocks not yet on disk"
            replies += 1
        elif edge == "end" and call in WRITING:
            files.add(descriptor)
            written += 1
        elif edge == "begin" and call == "fdatasync" and descriptor in files:
            syncing = written
        elif edge == "end" and call == "fdatasync" and descriptor in files:
            covered = syncing
    assert files, "no write of the log was seen: these are not the calls that it makes"
    return replies


def check_written(events: list[tuple[str, str, int, str]]) -> int:
    """How many replies `+OK` to a mark were sent, each checked to follow the write of a block with that mark."""
    asked: str | None = None
    written: set[str] = set()
    replies = 0
    for edge, call, _, data in events:
        if edge == "end" and call in READING and (marks := MARK.findall(data)):
            asked = marks[-1]
        elif edge == "end" and call in WRITING:
            written.update(MARK.findall(data))
        elif edge == "begin" and call in SENDING and OK in data and asked is not None:
            assert asked in written, f"reply {replies} left before its block was written"
            replies += 1
            asked = None
    return replies


def test_the_checker_finds_a_reply_that_is_too_early() -> None:
    early = f'1 pwrite64(7, "x", 1, 0) = 1\n2 sendto(9, "{OK}", 5) = 5\n1 fdatasync(7) = 0\n'
    with pytest.raises(AssertionError, match="not yet on disk"):
        check_order(read_trace(early))
    overlapping = (
        f'1 pwrite64(7, "x", 1, 0) = 1\n1 fdatasync(7 <unfinished ...>\n2 sendto(9, "{OK}", 5) = 5\n'
        "1 <... fdatasync resumed>) = 0\n"
    )
    with pytest.raises(AssertionError, match="not yet on disk"):
        check_order(read_trace(overlapping))
    mark = "".join(f"\\x{byte:02x}" for byte in b"mark-000001")
    unwritten = (
        f'1 read(9, "{mark}", 99) = 11\n2 pwritev(7, "{mark}", 1, 0 <unfinished ...>\n1 sendto(9, "{OK}", 5) = 5\n'
        "2 <... pwritev resumed>) = 11\n"
    )
    with pytest.raises(AssertionError, match="before its block was written"):
        check_written(read_trace(unwritten))
