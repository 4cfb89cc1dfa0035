"""The processes of compaction that a server has, as the system shows them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

MODULE = b"amemdb.persistence.compactor"


def is_compactor(pid: int) -> bool:
    """Whether that process has become one.

    Until then it is a copy of the server, and has its connections: who stops it in that moment keeps those open.
    """
    with suppress(OSError):
        return MODULE in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def compactors_of(server_pid: int) -> list[int]:
    """Those that the server has begun."""
    children: list[int] = []
    for path in Path(f"/proc/{server_pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended meanwhile
            children += [int(child) for child in path.read_text().split()]
    return list(filter(is_compactor, children))
