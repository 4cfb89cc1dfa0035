"""The machine: which cores to use, what is to be printed about it, and how busy others keep it."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.loader import BenchmarkError

FSYNCS = 100


def two_cores() -> tuple[int, int]:
    """A core for the load and one for the server, not two threads of one core where that can be helped."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchmarkError("the server and the load need a core each, and only one may be used here")
    load = cores[0]
    siblings = _siblings(load)
    return load, next((core for core in cores[1:] if core not in siblings), cores[1])


def _siblings(core: int) -> set[int]:
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    found: set[int] = set()
    for part in path.read_text().split(",") if path.exists() else []:
        first, _, last = part.strip().partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def facts() -> dict[str, Any]:
    """What a reader needs to know of the machine."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}",
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "fdatasync_us": round(fdatasync_us()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or "unknown"


def fdatasync_us() -> float:
    """Median time to force 4 KiB to the disk that holds the data folders."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(FSYNCS):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def load_average() -> float:
    """Processes that ran or waited to run, over the last minute."""
    return round(os.getloadavg()[0], 2)


def disk_flushes() -> int:
    """How often the disks of this machine were told to make safe what they hold, by any process, since it started."""
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return sum(int(fields[18]) for fields in lines if len(fields) > 18)  # there since Linux 5.5


class Others:
    """How much of the machine other processes used between two moments."""

    def __init__(self) -> None:
        self._busy, self._all = _machine_ticks()

    def share(self, own_seconds: float) -> float:
        """Share of all cores' time since the start that went to anything but `own_seconds` of ours."""
        busy, everything = _machine_ticks()
        own = own_seconds * os.sysconf("SC_CLK_TCK")
        return max(0.0, busy - self._busy - own) / max(1, everything - self._all)


def _machine_ticks() -> tuple[int, int]:
    """Ticks of all cores that went to processes or were stolen from this machine, and all ticks.

    Interrupts are nobody's: most of them deliver the packets of the measurement itself, and the kernel charges them
    neither to the server nor to the load program.
    """
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _waiting, _hard, _soft, stolen = ticks = list(map(int, fields))
    return user + nice + system + stolen, sum(ticks)
