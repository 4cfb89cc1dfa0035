"""Where the CPU time of a row goes: the same load on both servers, sampled by `perf`, per operation.

Samples of kernel code are told apart by what the kernel was asked for, those of other code by the file they are in:
what belongs to the event loop, to our compiled code, to the Python interpreter. Each share is given in microseconds of
server CPU for one operation, so that both servers stand beside each other. Python's own functions are not told apart:
they are all one function of the interpreter to `perf`.

Without `perf`, or where it may not be used, the kernel's own account is all there is: user and system time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.loader import BenchmarkError, Load
from benchmarks.measure import Bench, LoadRow, fill, side_of
from benchmarks.servers import OURS, REDIS, Server, running
from benchmarks.templates import templates

SECONDS = 4.0
FREQUENCY = 1_999
"""Samples a second: not a divisor of anything that happens on the machine."""
SYMBOLS_SHOWN = 30
NAMES = {OURS: "amemdb", REDIS: "Redis"}

_FRAME = re.compile(r"^\s*[0-9a-f]+ (.+?)(?:\+0x[0-9a-f]+)? \((.*)\)$")
_KERNEL_WORK = {
    "tcp_sendmsg": "send",
    "sock_write_iter": "send",
    "tcp_recvmsg": "receive",
    "sock_read_iter": "receive",
    "do_epoll_wait": "wait for events",
    "do_epoll_ctl": "wait for events",
    "do_futex": "wait for threads",
    "vfs_write": "write the log",
    "vfs_fsync_range": "force the log to disk",
    "ext4_sync_file": "force the log to disk",
    "handle_mm_fault": "get memory",
}
"""By a function of the kernel that is on the way to a sample, from the inside. `vfs_write` is outside of
`sock_write_iter`, so what it stands for are writes of files."""

Sample = tuple[str, str]
"""Where a sample fell: its category, and the function."""


def profile(row: LoadRow, pipeline: int, bench: Bench, say: Callable[[str], None]) -> str:
    """The whole report, as Markdown."""
    perf = shutil.which("perf")
    if perf is None:
        say("perf is not installed (linux-perf, or linux-tools): only user and system time can be shown")
    loads: dict[str, Load] = {}
    modes: dict[str, tuple[float, float]] = {}
    samples: dict[str, list[Sample]] = {}
    for name in (OURS, REDIS):
        say(f"profiling {side_of(row, name).title} on {NAMES[name]}, pipeline {pipeline}")
        with running(bench.variant(name), row.fsync, bench.server_core) as server:
            fill(server, side_of(row, name).fill, bench.loader)
            _load(row, server, pipeline, bench, 0.5)
            loads[name], modes[name], samples[name] = _sampled(perf, row, server, pipeline, bench, say)
    parts = [f"{row.ours.title} against {row.redis.title}, pipeline {pipeline}", _table_of_modes(loads, modes)]
    if all(samples.values()):
        parts.append(table_of_categories(samples, {name: cpu_us(load) for name, load in loads.items()}))
        parts += [table_of_symbols(NAMES[name], samples[name], cpu_us(loads[name])) for name in (OURS, REDIS)]
    return "\n\n".join(parts)


def _load(row: LoadRow, server: Server, pipeline: int, bench: Bench, seconds: float) -> Load:
    what = templates(side_of(row, server.variant.name).request)
    return bench.loader.run_seconds(server.port, server.pid, what, pipeline, seconds, 1)


def _sampled(
    perf: str | None, row: LoadRow, server: Server, pipeline: int, bench: Bench, say: Callable[[str], None]
) -> tuple[Load, tuple[float, float], list[Sample]]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        recorder = None
        if perf is not None:
            command = [perf, "record", "-e", "cpu-clock", "-F", str(FREQUENCY), "-g", "-p", str(server.pid)]
            recorder = subprocess.Popen(
                [*command, "-o", str(data), "--", "sleep", str(SECONDS)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        before = user_and_system(server.pid)
        load = _load(row, server, pipeline, bench, SECONDS)
        after = user_and_system(server.pid)
        mode = (after[0] - before[0], after[1] - before[1])
        if perf is None or recorder is None:
            return load, mode, []
        complaint = recorder.communicate()[1]
        if recorder.returncode or not data.exists():
            say(f"perf cannot be used here, so only user and system time can be shown: {complaint.strip()}")
            return load, mode, []
        said = subprocess.run(
            [perf, "script", "-i", str(data), "-F", "ip,sym,dso"], capture_output=True, text=True, check=False
        )
        if said.returncode:
            raise BenchmarkError(f"perf cannot read what it wrote: {said.stderr.strip()}")
        return load, mode, read_samples(said.stdout)


def user_and_system(pid: int) -> tuple[float, float]:
    """Ticks of a process so far, all its threads: in its own code, and in the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return float(fields[11]), float(fields[12])


def cpu_us(load: Load) -> float:
    """Server CPU of one operation."""
    return load.server_cpu_seconds / load.operations * 1e6


def read_samples(script: str) -> list[Sample]:
    """What `perf script -F ip,sym,dso` printed: a block of frames, innermost first, for each sample."""
    samples = []
    for block in script.split("\n\n"):
        frames = [(found[1], found[2]) for line in block.splitlines() if (found := _FRAME.match(line))]
        if frames:
            samples.append((_category(frames), frames[0][0]))
    return samples


def _category(frames: list[tuple[str, str]]) -> str:
    """Of one sample, by its innermost frame."""
    file = frames[0][1]
    if file.startswith(("[kernel", "[guest.kernel")) or file.endswith(".ko"):
        what = next((_KERNEL_WORK[symbol] for symbol, _ in frames if symbol in _KERNEL_WORK), "all else")
        return f"kernel: {what}"
    name = file.rpartition("/")[2]
    if "/uvloop/" in file:
        return "uvloop, with libuv"
    if name.startswith("redis-server"):
        return "redis-server"
    if name.startswith(("libpython", "python")):
        return "Python interpreter"
    if name.startswith(("libc.", "libc-", "libm.", "libpthread", "libjemalloc", "ld-linux", "[vdso]", "[vsyscall]")):
        return "libc"
    if "/amemdb/" in file and ("/site-packages/" not in file or "/site-packages/amemdb/" in file):
        return "amemdb, compiled"
    return f"other: {name.partition('.')[0]}"


def _table_of_modes(loads: dict[str, Load], modes: dict[str, tuple[float, float]]) -> str:
    lines = ["| server | CPU µs an operation | of it in the kernel | 1,000 operations/s |", "| --- | --- | --- | --- |"]
    for name, load in loads.items():
        user, system = modes[name]
        share = system / max(1.0, user + system)
        rate = load.operations / load.seconds / 1e3
        lines.append(f"| {NAMES[name]} | {cpu_us(load):.2f} | {share:.0%} | {rate:.0f} |")
    return "\n".join(lines)


def table_of_categories(samples: dict[str, list[Sample]], cpu: dict[str, float]) -> str:
    """Microseconds an operation of each category, the dearest of ours first."""
    counts = {name: Counter(category for category, _ in found) for name, found in samples.items()}
    per_operation = {
        name: {category: count / found.total() * cpu[name] for category, count in found.items()}
        for name, found in counts.items()
    }
    categories = sorted({*counts[OURS], *counts[REDIS]}, key=lambda each: -per_operation[OURS].get(each, 0.0))
    lines = [f"| where | {NAMES[OURS]}, µs | {NAMES[REDIS]}, µs |", "| --- | --- | --- |"]
    for category in categories:
        ours, redis = (per_operation[name].get(category, 0.0) for name in (OURS, REDIS))
        lines.append(f"| {category} | {ours:.3f} | {redis:.3f} |")
    return "\n".join(lines)


def table_of_symbols(name: str, samples: list[Sample], cpu: float) -> str:
    """The functions of one server that most samples fell into."""
    lines = [f"| {name}: function | where | µs | share |", "| --- | --- | --- | --- |"]
    for (category, symbol), count in Counter(samples).most_common(SYMBOLS_SHOWN):
        share = count / len(samples)
        lines.append(f"| `{symbol}` | {category} | {share * cpu:.3f} | {share:.1%} |")
    return "\n".join(lines)
