"""The running server as commands see it: settings, connections, counters, slow commands.

One object that the server makes, the engine counts into and commands ask. It knows no socket, file or clock: time,
randomness, the memory in use and the log's state come in as callables and arguments. What INFO says of it all is
written in `amemdb.engine.info`.

The server keeps `sessions` by `open_session` and `close_session`, adds to the plain counters below as things
happen, calls `tick` about ten times a second, and gives the hooks (`on_kill`, `on_shutdown`, `sleep`, `log_status`,
`config_rewrite`, `compaction`, `facts`, and those of `memory`) that need what an engine may not touch.
"""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, Protocol

from amemdb.commands import context
from amemdb.commands.connection import DEFAULT_USER
from amemdb.commands.context import Embedder
from amemdb.commands.session import Session
from amemdb.commands.table import COMMANDS, Command
from amemdb.engine import info
from amemdb.engine.memory import Memory, Report
from amemdb.engine.slowlog import SlowLog
from amemdb.engine.traffic import Traffic
from amemdb.stores.stores import Stores

NEVER_NS = 1 << 62
"""A duration that no command reaches: the slow log is off."""
SAMPLES_MAX = 16
"""Ticks over which rates are measured."""


class Settings(Protocol):
    """What is asked of `amemdb.config.Config`."""

    def get(self, name: str) -> Any:
        """A setting's value in its own type."""

    def text(self, name: str) -> str:
        """A setting's value as CONFIG GET tells it."""

    def names(self) -> list[str]:
        """Every setting's name."""

    def set_many(self, changes: list[tuple[str, str]]) -> None:
        """Change settings, all or none; `CommandError` names the one that cannot be."""


class Progress(Protocol):
    """How far a compaction is, sizes in bytes."""

    @property
    def read(self) -> int:
        """What was read so far, of all parts."""

    @property
    def of(self) -> int:
        """What there is to read."""

    @property
    def written(self) -> int:
        """How large the new base is so far."""


class Compaction(context.Compaction, Protocol):
    """What INFO tells of compaction, besides what commands ask of it."""

    @property
    def progress(self) -> Progress:
        """How far the one under way is."""

    @property
    def scheduled(self) -> bool:
        """Whether another one begins when the one under way is over."""

    @property
    def count(self) -> int:
        """How many went well."""

    @property
    def last_s(self) -> float:
        """How long the last one took, in seconds; negative if there was none."""

    @property
    def current_s(self) -> float:
        """How long the one under way has taken so far; negative if there is none."""

    @property
    def parts(self) -> int:
        """Of how many parts the last one was made."""

    @property
    def peak_bytes(self) -> int:
        """Memory that the last one took at its peak."""


class LogStatus(Protocol):
    """What INFO tells of the log. The server has it, as it owns the log."""

    @property
    def policy(self) -> str:
        """The setting `appendfsync` as it is in force."""

    @property
    def offset(self) -> int:
        """Bytes of all frames taken so far."""

    @property
    def durable_offset(self) -> int:
        """Up to where they are known to be on disk."""

    @property
    def segments(self) -> int:
        """Files that the log consists of, besides its base."""

    @property
    def base_bytes(self) -> int:
        """The size of the base, which stands for the beginning of the log; 0 if there is none."""

    @property
    def base_offset(self) -> int:
        """Up to which offset it does."""

    @property
    def disk_bytes(self) -> int:
        """What all files of the log take, with the room that is reserved."""

    @property
    def syncs(self) -> int:
        """How often the disk said that it has what was written."""

    @property
    def sync_failures(self) -> int:
        """How often it failed to."""

    @property
    def last_sync_ms(self) -> float:
        """How long it took the last time, in milliseconds."""

    @property
    def longest_sync_ms(self) -> float:
        """How long it ever took."""

    @property
    def error(self) -> str:
        """Why the log cannot be written now; empty when it can."""


class Rates(NamedTuple):
    """What happened a second, lately."""

    commands: float
    input_bytes: float
    output_bytes: float


class ServerState:
    """One server's state besides its data. Implements `amemdb.commands.context.Server`."""

    # What has been counted since the start or CONFIG RESETSTAT.
    connections_received: int
    connections_rejected: int
    """Turned away because there were `maxclients` already."""
    output_limit_cuts: int
    """Connections cut because too much was waiting to be read by them."""
    stall_cuts: int
    """Connections cut because they had read nothing for too long."""
    idle_timeouts: int
    protocol_errors: int
    logins_failed: int
    expired: int
    """Objects removed because their time had passed."""
    loop_lag_ns_max: int

    def __init__(
        self,
        config: Settings,
        monotonic_ns: Callable[[], int],
        random: Random,
        run_id: str = "0" * 40,
    ) -> None:
        self.config = config
        self.monotonic_ns = monotonic_ns
        self.random = random
        self.run_id = run_id
        self.started_at_ns = monotonic_ns()
        self.sessions: dict[int, Session] = {}
        self.shutdown_requested = False
        self.loop_lag_ns = 0
        """How late the event loop ran its last tick; set by the server."""
        self.traffic = Traffic()
        self.facts: dict[str, str] = {}
        """Lines that only the server knows (process, system, address), for the `server` section of INFO."""
        self.memory = Memory()
        self.log_status: Callable[[], LogStatus] | None = None
        self.embedder: Embedder | None = None
        self.require_log_room: Callable[[int], None] = _always_room
        self.config_rewrite: Callable[[], str | None] | None = None
        self.compaction: Compaction | None = None
        self.sleep: Callable[[float], None] = _no_sleep
        self.on_kill: Callable[[Session], None] = _ignore_kill
        self.on_shutdown: Callable[[], None] = _ignore_shutdown
        self.slow_commands = SlowLog()
        self._calls: dict[str, list[int]] = {}
        """By command: calls, nanoseconds spent, failures, rejections."""
        self.settle: Callable[[], None] = _nothing_counted
        """Has native code give what it counted (`add_calls`)."""
        self.errors: dict[str, int] = {}
        """Error replies by their code."""
        self._samples: deque[tuple[int, int, int, int]] = deque(maxlen=SAMPLES_MAX)
        """Monotonic nanoseconds, commands, bytes in, bytes out, at each of the last ticks."""
        self._next_session_id = 1
        self.conv_window = 0
        """The setting of that name, as it is in force; read with the others below."""
        self.slow_from_ns = NEVER_NS
        """What takes as long goes to the slow log."""
        self.reset_statistics()
        self._read_settings()

    # -- connections -----------------------------------------------------------------------------

    def open_session(self, address: str = "", local_address: str = "") -> Session:
        """A new connection's session, known to CLIENT LIST from now on."""
        now_ns = self.monotonic_ns()
        session = Session(self._next_session_id, address, local_address, now_ns, last_active_ns=now_ns)
        session.authenticated = not self.login_required
        self._next_session_id += 1
        self.sessions[session.id] = session
        self.connections_received += 1
        return session

    def close_session(self, session: Session) -> None:
        """The connection is gone."""
        self.sessions.pop(session.id, None)

    def kill(self, session: Session) -> None:
        """Have the server close a connection as soon as it can."""
        session.kill = True
        self.on_kill(session)

    @property
    def login_required(self) -> bool:
        """Whether a new connection has to log in first."""
        return bool(self.config.text("requirepass"))

    def check_password(self, user: bytes, password: bytes) -> bool:
        """Whether these may log in; without a password set, the default user may with any."""
        wanted = self.config.text("requirepass").encode("utf-8", "surrogateescape")
        accepted = (not wanted or hmac.compare_digest(wanted, password)) and user == DEFAULT_USER
        if not accepted:
            self.logins_failed += 1
        return accepted

    # -- counting: on the way of every command ---------------------------------------------------

    def count_call(self, command: Command, argv: list[bytes], session: Session, spent_ns: int, now_ms: int) -> None:
        """A command ran to its end."""
        name = command.name
        session.last_command = name
        try:
            counts = self._calls[name]
        except KeyError:
            counts = self._calls[name] = [0, 0, 0, 0]
        counts[0] += 1
        counts[1] += spent_ns
        if spent_ns >= self.slow_from_ns:
            self.slow_commands.add(command, argv, session, spent_ns, now_ms)

    def add_calls(self, name: str, calls: int, spent_ns: int) -> None:
        """Commands of that name ran to their end."""
        counts = self._calls.setdefault(name, [0, 0, 0, 0])
        counts[0] += calls
        counts[1] += spent_ns

    def count_slow(self, name: str, argv: list[bytes], session: Session, spent_ns: int, now_ms: int) -> None:
        """A command that was counted otherwise was slow."""
        self.slow_commands.add(COMMANDS[name], argv, session, spent_ns, now_ms)

    def count_failure(self, name: str | None, code: str, ran: bool) -> None:
        """A command was refused: by its handler when it `ran`, else by a gate. No name: there is no such command."""
        self.errors[code] = self.errors.get(code, 0) + 1
        if name is None:
            return
        counts = self._calls.setdefault(name, [0, 0, 0, 0])
        if ran:
            counts[0] += 1
            counts[2] += 1
        else:
            counts[3] += 1

    def tick(self) -> None:
        """Sample what INFO tells as rates and peaks."""
        self.memory.tick(self.sessions)
        traffic = self.traffic
        self._samples.append((self.monotonic_ns(), self.calls_total(), traffic.input_bytes, traffic.output_bytes))

    # -- what INFO asks --------------------------------------------------------------------------

    def calls(self) -> dict[str, tuple[int, int, int, int]]:
        """By command: calls, nanoseconds spent in them, failures, rejections."""
        self.settle()
        return {name: (counts[0], counts[1], counts[2], counts[3]) for name, counts in self._calls.items()}

    def calls_total(self) -> int:
        """Commands that ran, with success or not."""
        self.settle()
        return sum([counts[0] for counts in self._calls.values()])

    def rates(self) -> Rates:
        """Over the ticks sampled last."""
        if len(self._samples) < 2:
            return Rates(0.0, 0.0, 0.0)
        first, last = self._samples[0], self._samples[-1]
        seconds = max(last[0] - first[0], 1) / 1e9
        return Rates(*((after - before) / seconds for before, after in zip(first[1:], last[1:], strict=True)))

    # -- what commands ask -----------------------------------------------------------------------

    def config_get(self, name: str) -> str:
        """A setting's value as text."""
        return self.config.text(name)

    def config_names(self) -> list[str]:
        """Every setting's name."""
        return self.config.names()

    def config_set(self, changes: list[tuple[str, str]]) -> None:
        """Change settings, all or none; `CommandError` names the one that cannot be.

        Connections that are open stay as they are when a password is set; when it is taken away all are let in.
        """
        self.config.set_many(changes)
        self._read_settings()
        if not self.login_required:
            for session in self.sessions.values():
                session.authenticated = True

    def info(self, sections: list[str], stores: Stores, now_ms: int) -> str:
        """The text of INFO."""
        return info.text(self, sections, stores, now_ms)

    def memory_report(self) -> Report:
        """What all takes in memory."""
        self.memory.count_clients(self.sessions.values())
        return self.memory.report()

    def slowlog(self, count: int = -1) -> list[Any]:
        """Slow commands, newest first, at most `count` of them; all if it is negative."""
        return self.slow_commands.newest(count)

    def slowlog_len(self) -> int:
        """How many slow commands are kept."""
        return len(self.slow_commands)

    def slowlog_reset(self) -> None:
        """Forget slow commands."""
        self.slow_commands.clear()

    def require_room(self, count_bytes: int) -> None:
        """Refuse with `MISCONF` unless the log can take a frame of that size."""
        self.require_log_room(count_bytes)

    def request_shutdown(self) -> None:
        """Ask the server to stop in order."""
        self.shutdown_requested = True
        self.on_shutdown()

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""
        self.connections_received = 0
        self.connections_rejected = 0
        self.output_limit_cuts = 0
        self.stall_cuts = 0
        self.idle_timeouts = 0
        self.protocol_errors = 0
        self.traffic.input_bytes = self.traffic.output_bytes = 0
        self.logins_failed = 0
        self.expired = 0
        self.loop_lag_ns_max = 0
        self.settle()
        self._calls.clear()
        self.errors.clear()
        self._samples.clear()
        if self.embedder is not None:
            self.embedder.reset()

    def _read_settings(self) -> None:
        """Take up the settings that the hot path looks at."""
        self.conv_window = int(self.config.get("conv-window"))
        self.memory.set_limit(int(self.config.get("maxmemory")))
        slower_than_us = int(self.config.text("slowlog-log-slower-than"))
        self.slow_from_ns = slower_than_us * 1000 if slower_than_us >= 0 else NEVER_NS
        self.slow_commands.limit(int(self.config.text("slowlog-max-len")))


def _nothing_counted() -> None:
    return


def _always_room(count_bytes: int) -> None:
    return


def _no_sleep(seconds: float) -> None:
    return


def _ignore_kill(session: Session) -> None:
    return


def _ignore_shutdown() -> None:
    return
