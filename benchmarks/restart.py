"""Rows of restart: from the start of the process to the first answer that is not "loading", on data that was there.

Each server is filled once, may be told to compact, and is stopped in order. Then, in every round, each is started on
what it has left, timed, and stopped in order again. All its files are read before, so that both find them in the
system's page cache: what is measured is the work of loading, not the disk.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks.compaction import MIB, compact, scaled
from benchmarks.loader import BenchmarkError
from benchmarks.machine import Others
from benchmarks.measure import Bench, Case, Samples, Side, Target, fill, side_of
from benchmarks.servers import OURS, REDIS, Server, data_folder, serving

RESTART_ROUNDS_MAX = 3
COUNTS = ("conversation_turns", "working_notes", "episodic_events")
"""What INFO counts of ours, beside the keys."""


@dataclass(frozen=True)
class RestartRow:
    """Time to serve again."""

    key: str
    ours: Side
    redis: Side
    """Counts of both fills are for `compaction.SCALE_OBJECTS` objects."""
    target: Target | None
    """Redis's time divided by ours."""
    compacted: bool = False
    """Whether both have compacted before."""
    preamble: bool = False
    """Whether Redis's compacted file is a snapshot (`aof-use-rdb-preamble`) rather than commands."""
    note: str = ""

    kind = "restart"

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Make the data of both, then let them take turns."""
        with ExitStack() as stack:
            folders: dict[str, Path] = {}
            contents: dict[str, dict[str, Any]] = {}
            for name in (OURS, REDIS):
                folders[name] = stack.enter_context(data_folder(name))
                contents[name] = self._prepare(name, folders[name], bench)
            samples: Samples = {OURS: [], REDIS: []}
            for order in bench.each_round(RESTART_ROUNDS_MAX):
                for name in order:
                    samples[name].append(self._once(name, folders[name], contents[name], bench))
        return samples

    def _prepare(self, name: str, folder: Path, bench: Bench) -> dict[str, Any]:
        """Leave data in `folder`; what there is."""
        with serving(bench.variant(name), "everysec", bench.server_core, folder, keep=True) as server:
            fill(server, scaled(side_of(self, name).fill, bench.objects), bench.loader)
            if self.compacted:
                if name == REDIS:
                    set_preamble(server, self.preamble)
                compact(server)
            return contents_of(server)

    def _once(self, name: str, folder: Path, contents: dict[str, Any], bench: Bench) -> dict[str, float]:
        read_bytes = sum(len(path.read_bytes()) for path in (folder / "data").rglob("*") if path.is_file())
        others = Others()
        with serving(bench.variant(name), "everysec", bench.server_core, folder, keep=True) as server:
            cpu_seconds, resident_bytes = server.cpu_seconds, server.resident_bytes
            others_share = others.share(cpu_seconds)
            found = contents_of(server)
            if found != contents:
                raise BenchmarkError(f"{name} had {contents} before its restart, and {found} after")
            return {
                "seconds": round(server.start_seconds, 3),
                "cpu_seconds": round(cpu_seconds, 2),
                "resident_mib": round(resident_bytes / MIB, 1),
                "read_mib": round(read_bytes / MIB, 1),
                "others": round(others_share, 3),
            }


def set_preamble(server: Server, wanted: bool) -> None:
    """Whether Redis begins a compacted file with a snapshot."""
    with redis.Redis(port=server.port) as client:
        client.config_set("aof-use-rdb-preamble", "yes" if wanted else "no")


def contents_of(server: Server) -> dict[str, Any]:
    """How much of what the server has."""
    with redis.Redis(port=server.port) as client:
        told = client.info("everything")
        return {"keys": client.dbsize(), **{name: told[name] for name in COUNTS if name in told}}
