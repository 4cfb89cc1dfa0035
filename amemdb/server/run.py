"""Makes a process of a node: loads the data, serves until told to stop, and leaves with an exit code.

What goes wrong outside (port in use, folder not writable or in use, damaged log, no such embedder) is one line on
standard error that says what it is and what to do, and exit code 1. SIGTERM and SIGINT stop in order, exit code 0; a
second one leaves at once. Log lines go to standard error, one for each thing worth knowing, and never hold data or
passwords.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import platform
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import uvloop

from amemdb import __version__, native
from amemdb.clock import Clock
from amemdb.config import MIB, Config
from amemdb.config_file import ConfigFile
from amemdb.embed.embedder import EmbedError
from amemdb.embed.service import Service
from amemdb.engine.memory import Memory
from amemdb.errors import StorageError
from amemdb.persistence import graph_files
from amemdb.persistence.recovery import Progress, RecoveryReport
from amemdb.server import collector, huge_pages
from amemdb.server.compaction import Compaction, Settings
from amemdb.server.crash import Crash, command_name
from amemdb.server.embedding import service_of
from amemdb.server.listener import FAREWELLS_MAX, FAREWELLS_MIN, ListenError, address_text, bind
from amemdb.server.log_service import LogService
from amemdb.server.node import Node, resident_bytes
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.stores import Stores

SWITCH_INTERVAL_S = 0.0005
"""How long a thread may hold the interpreter while the loop waits: Python's 5 ms would be felt in every search."""
PROGRESS_S = 2.0
"""How often a long load tells how far it is."""
MODEL_S_MAX = 60.0
"""How long the start waits for the model of an embedder."""
SAVE_S_MAX = 20.0
"""How long a stop may take to save graphs, beside the one under way: who waits for it may lose patience."""
FREED_AT_ONCE = 100_000
"""Parts of what was dropped that a load frees in one call."""
FILES_RESERVED = 64
"""Open files that are not connections."""
LEVELS = {"debug": logging.DEBUG, "verbose": 15, "notice": logging.INFO, "warning": logging.WARNING}
LOG_LEVELS = {"notice": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ROOM_BYTES_LOW = 16 * MIB
"""A `maxmemory` that leaves less for data than this was likely chosen without knowing what an empty server takes."""

_log = logging.getLogger("amemdb")


def run(config: Config) -> int:
    """Serve until a signal or SHUTDOWN; the exit code."""
    set_up_logging(config.get("loglevel"))
    faulthandler.enable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    crash = Crash(Path(config.get("dir")))
    try:
        service = service_of(config)
        sockets = bind(config.get("host"), config.get("port"))
        process = Process(config, crash, service)
        if service is not None:
            service.start()  # loads its model while the data is loaded
        process.load()
        if service is not None:
            _await_model(service)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(process.serve(sockets))
    except (EmbedError, ListenError, StorageError) as error:
        sys.stderr.write(f"amemdb: {error}\n")
        return 1
    except Exception as error:
        crash.stop(error)
    return 0


class Process:
    """One run of the server: `load`, then `serve`."""

    def __init__(self, config: Config, crash: Crash, service: Service | None = None) -> None:
        self._config = config
        self._service = service
        self._crash = crash
        self._clock = Clock(on_jump=_report_jump)
        self._stores = Stores()
        self._node: Node | None = None
        self._startup_bytes = 0
        self._signals = 0
        self._log = LogService(
            Path(config.get("dir")),
            config.get("appendfsync"),
            segment_bytes_max=config.get("log-segment-bytes"),
            reserve_bytes=config.get("log-reserve-bytes"),
            on_release=self._released,
            on_log=_tell_log,
            on_bug=crash.stop,
        )

    def load(self) -> None:
        """Read the log. Raises `StorageError`. The collector is off meanwhile: nothing loaded is garbage."""
        self._startup_bytes = resident_bytes()
        started_s = time.monotonic()
        gc.disable()
        try:
            report = self._log.recover(self._stores.apply, _progress(self._stores.graveyard))
        finally:
            gc.enable()
        collector.settle()
        self._clock.raise_to(report.last_time_ms)
        _tell_loaded(report, self._stores, self._config.get("dir"), time.monotonic() - started_s)
        started_s = time.monotonic()
        with huge_pages.for_what_comes(self._stores.sem.graph_bytes_max(), there=True):
            done = graph_files.load(self._config.get("dir"), self._stores.sem, _tell_log)
        if done.graphs:
            seconds = time.monotonic() - started_s
            _log.info("loaded %d graphs of %s vectors in %.2f s", done.graphs, f"{done.vectors:,}", seconds)

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve on `sockets` until told to stop. Raises `ListenError`."""
        loop = asyncio.get_running_loop()
        self._crash.install(loop)
        sockets_max = _sockets_allowed(self._config.get("maxclients"))
        node = Node(self._config, self._stores, self._log, self._clock, loop, self._bug, sockets_max, self._service)
        self._node = node
        memory = node.state.memory
        memory.startup_bytes = self._startup_bytes
        memory.refresh()
        _tell_room(memory, memory.limit_bytes)
        self._config.on_change("maxmemory", lambda limit_bytes: _tell_room(memory, limit_bytes))
        self._config.on_change("appendfsync", self._log.set_policy)
        if self._config.file is not None:
            node.state.config_rewrite = ConfigFile(self._config.file, self._config, _log.warning).rewrite
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        node.state.facts.update(_facts(sockets))
        compaction = self._compaction(node, loop)
        node.state.compaction = compaction
        await node.start(sockets)
        compaction.watch()
        if self._service is not None:
            _log.info("texts are embedded by '%s'", self._service.embedder.name)
        _tell_ready(self._config, sockets)
        await node.stop_requested()
        if not self._signals:
            _log.info("stopping: SHUTDOWN was sent")
        await compaction.stop()
        await node.stop()
        _log.info("everything is on disk")
        self._save_graphs()
        _log.info("goodbye")

    def _save_graphs(self) -> None:
        """Keep graphs for the next start. The data is safe by now: a kill meanwhile only makes that start longer."""
        if not self._config.get("save-graphs"):
            self._forget_graphs()
            return
        started_s = time.monotonic()
        end_s = started_s + SAVE_S_MAX
        done = graph_files.save(self._config.get("dir"), self._stores.sem, lambda: time.monotonic() >= end_s, _tell_log)
        if done.graphs:
            seconds = time.monotonic() - started_s
            _log.info("saved %d graphs of %s vectors in %.2f s", done.graphs, f"{done.vectors:,}", seconds)

    def _compaction(self, node: Node, loop: asyncio.AbstractEventLoop) -> Compaction:
        config = self._config

        return Compaction(
            loop,
            self._log,
            self._log.disk,
            settings=lambda: Settings(
                config.get("auto-aof-rewrite-percentage"),
                config.get("auto-aof-rewrite-min-size"),
                config.get("compaction-memory"),
            ),
            expire=node.ticks.expire,
            expire_in_ms=lambda: self._stores.due_in_ms(self._clock.now_ms()),
            data_size=lambda: (self._stores.count(), self._stores.memory_bytes()),
            now_s=lambda: self._clock.now_ms() / 1000,
            monotonic_s=time.monotonic,
            done=self._forget_graphs,
            report=_tell_log,
            bug=self._crash.stop,
        )

    def _forget_graphs(self) -> None:
        """After a compaction nothing on disk tells of what was forgotten: so neither do graphs of the last stop."""
        try:
            graph_files.remove(self._config.get("dir"))
        except OSError as error:
            _log.warning("graphs of the last stop could not be removed, they may hold what was forgotten: %s", error)

    def _released(self) -> None:
        if self._node is not None:
            self._node.released()

    def _on_signal(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1 or self._node is None:
            _log.warning("stopping at once: %s again", number.name)
            os._exit(128 + number)
        _log.info("stopping: received %s", number.name)
        self._node.request_stop()

    def _bug(self, error: BaseException, argv: list[bytes] | None) -> NoReturn:
        self._crash.stop(error, command_name(argv))


def set_up_logging(level: str) -> None:
    """Lines with a time on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    _log.handlers[:] = [handler]
    _log.setLevel(LEVELS[level])
    _log.propagate = False


def _await_model(service: Service) -> None:
    """Let a model be loaded before anything is served, as that would hold up clients. One that fails stops nothing."""
    loaded = service.wait_prepared(MODEL_S_MAX)
    if service.counts.last_error:
        _log.warning("%s; it is tried again when it is needed", service.counts.last_error)
    elif not loaded:
        _log.warning("the embedder's model is still being loaded; clients may notice")


# -- what is told ------------------------------------------------------------------------------------


def _progress(graveyard: Graveyard) -> Progress:
    """Tells now and then how far a long load is, and lets go of what was dropped by then, as no tick does."""
    started_s = told_s = time.monotonic()

    def tell(read_bytes: int, total_bytes: int) -> None:
        nonlocal told_s
        while len(graveyard):
            graveyard.free(FREED_AT_ONCE)
        now_s = time.monotonic()
        if now_s - told_s >= PROGRESS_S:
            told_s = now_s
            done = f"{read_bytes >> 20:,} of {total_bytes >> 20:,} MiB ({100 * read_bytes // max(1, total_bytes)} %)"
            _log.info("loading: %s in %.0f s", done, now_s - started_s)

    return tell


def _tell_loaded(report: RecoveryReport, stores: Stores, directory: str, seconds: float) -> None:
    _log.info("amemdb %s, process %d, Python %s", __version__, os.getpid(), platform.python_version())
    _tell_native()
    objects = {
        "sessions": len(stores.conv.sessions),
        "fact namespaces": len(stores.sem.namespaces),
        "event logs": len(stores.epis.logs),
        "summaries": len(stores.summary.summaries),
        "keys": sum(len(database.values) for database in stores.keys.databases),
    }
    held = ", ".join(f"{count:,} {name}" for name, count in objects.items() if count) or "nothing"
    folder = os.path.abspath(directory)
    _log.info("loaded %s records from %s in %.2f s: %s", f"{report.records:,}", folder, seconds, held)


def _tell_native() -> None:
    if native.DECLINED:
        _log.info("native code is not in use: %s", native.MISSING)
    elif not native.ENABLED:
        _log.warning(
            "native code is not in use: %s; everything works, several times slower. Install a C compiler and Python's "
            "headers, then reinstall",
            native.MISSING,
        )


def _tell_room(memory: Memory, limit_bytes: int) -> None:
    """Warn of a `maxmemory` that leaves little or nothing: the process counts as well, which nobody expects."""
    used_bytes = memory.used_bytes
    if not limit_bytes or limit_bytes - used_bytes >= ROOM_BYTES_LOW:
        return
    used = f"{used_bytes / MIB:.1f} MiB are used, {memory.startup_bytes / MIB:.1f} MiB of them by the server itself"
    if used_bytes > limit_bytes:
        text = "maxmemory is %.1f MiB and %s: writes that add data are refused"
        _log.warning(text, limit_bytes / MIB, used)
    else:
        text = "maxmemory is %.1f MiB and %s: only %.1f MiB are left for more data"
        _log.warning(text, limit_bytes / MIB, used, (limit_bytes - used_bytes) / MIB)


def _tell_ready(config: Config, sockets: list[socket.socket]) -> None:
    addresses = " and ".join(address_text(sock.getsockname()) for sock in sockets)
    if config.get("host") not in LOOPBACK and not config.get("requirepass"):
        _log.warning("whoever reaches %s can read and change everything: set requirepass", addresses)
    _log.info("ready on %s, appendfsync %s", addresses, config.get("appendfsync"))


def _tell_log(level: str, line: str) -> None:
    _log.log(LOG_LEVELS[level], "%s", line)


def _report_jump(jump_ms: int) -> None:
    _log.warning("the system clock jumped by %+.1f s; what expires by the clock follows it", jump_ms / 1000)


def _facts(sockets: list[socket.socket]) -> dict[str, str]:
    system = os.uname()
    return {
        "os": f"{system.sysname} {system.release} {system.machine}",
        "arch_bits": "64" if sys.maxsize > 2**32 else "32",
        "multiplexing_api": f"uvloop {uvloop.__version__}",  # type: ignore[attr-defined]
        "python_version": platform.python_version(),
        "process_id": str(os.getpid()),
        "tcp_port": str(sockets[0].getsockname()[1]),
    }


def _sockets_allowed(clients_max: int) -> int:
    """How many sockets the system's limit of open files allows, raised as far as it goes, up to what may be needed.

    Connections on their way out are counted in. Were they not, peers that are turned away and do not close could take
    the files that the log needs for its next segment.
    """
    wanted = clients_max + FAREWELLS_MAX + FILES_RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return clients_max + FAREWELLS_MAX
    sockets_max = max(1 + FAREWELLS_MIN, soft - FILES_RESERVED)
    allowed = sockets_max - FAREWELLS_MIN
    if allowed < clients_max:
        _log.warning(
            "only %d connections instead of maxclients %d: raise the limit of open files", allowed, clients_max
        )
    return sockets_max
