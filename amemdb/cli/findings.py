"""What is wrong or risky with a running server, judged from its INFO and settings: for `info` and for `doctor`.

Each finding says what is the matter and what to do about it; a finding that asks for nothing is none. Thresholds are
where somebody should look, not where something is unusual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from amemdb.cli.showing import duration, size

Level = Literal["ok", "warn", "fail"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")
CLIENTS_SHARE_HIGH = 0.8
LAG_MS_HIGH, LAG_MS_WORST = 100, 1_000
UNDURABLE_BYTES_HIGH = 64 << 20
MEMORY_SHARE_HIGH = 0.9
RESTARTED_LATELY_S = 300
DEGRADED = {"MISCONF": "the log could not be written", "READONLY": "it was a copy"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `do` is empty where nothing has to be done."""

    level: Level
    subject: str
    said: str
    do: str = ""


def of_server(
    info: Mapping[str, Any], settings: Mapping[str, str], crashed_s_ago: float | None = None
) -> Iterator[Finding]:
    """What deserves a look, the grave first. `crashed_s_ago` is the age of its newest crash file, where one is seen."""
    yield from _of_log(info, settings)
    yield from _of_memory(info)
    yield from _of_clients(info)
    yield from _of_access(info, settings)
    yield from _of_load(info)
    yield from of_native(info)
    yield from _of_start(info, crashed_s_ago)


def writes_refused(info: Mapping[str, Any]) -> str:
    """Why the server refuses writes now; empty when it takes them."""
    error = str(info.get("log_error") or "")
    return error or ("more than maxmemory is used" if _is_full(info) else "")


def of_native(info: Mapping[str, Any]) -> Iterator[Finding]:
    """What the server says of its native code; an older one says nothing."""
    told = info.get("amemdb_native")
    if told == "yes":
        yield Finding("ok", "native code", "in use")
    elif told == "no":
        yield Finding(
            "warn",
            "native code",
            "not in use there: everything works, several times slower",
            "the server's own log says why, at its start. If it was not built: install a C compiler and Python's "
            "headers, then amemdb again; if AMEMDB_NATIVE=0 is set there: unset it",
        )


def _of_log(info: Mapping[str, Any], settings: Mapping[str, str]) -> Iterator[Finding]:
    error = str(info.get("log_error") or "")
    if error:
        yield Finding(
            "fail", "log", f"writes are refused: {error}", "make room or mend the disk; they come back by themselves"
        )
    waiting = _number(info, "log_undurable_bytes")
    policy = str(info.get("log_policy") or settings.get("appendfsync", ""))
    if waiting > UNDURABLE_BYTES_HIGH and policy != "no":
        yield Finding(
            "warn", "log", f"{size(waiting)} are not on disk yet", "the disk is slower than the writes: look at it"
        )
    if policy == "no":
        yield Finding(
            "warn",
            "appendfsync",
            "no: a power cut loses what the system has not written yet, often 30 s",
            "CONFIG SET appendfsync everysec, then CONFIG REWRITE",
        )
    compaction_error = str(info.get("compaction_error") or "")
    if compaction_error:
        do = "see to what it says, then BGREWRITEAOF; until it goes well, the log grows"
        yield Finding("warn", "compaction", f"the last one failed: {compaction_error}", do)
    for code, meaning in DEGRADED.items():
        count = _error_count(info, code)
        if count and not error:
            text = f"{count:,} commands were refused with {code} since the start: {meaning}"
            yield Finding("warn", "refusals", text, "look at the server's own log for when and why")


def _is_full(info: Mapping[str, Any]) -> bool:
    """Whether writes that add data are refused. What was dropped goes by itself, and before anything is refused."""
    limit = _limit_bytes(info)
    return bool(limit) and _number(info, "used_memory") - _number(info, "lazyfree_pending_bytes") > limit


def _limit_bytes(info: Mapping[str, Any]) -> int:
    """`maxmemory`; 0 for none, and where a Redis makes room by itself."""
    return _number(info, "maxmemory") if info.get("maxmemory_policy", "noeviction") == "noeviction" else 0


def _of_memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    limit, used, own = _limit_bytes(info), _number(info, "used_memory"), _number(info, "used_memory_startup")
    count = _error_count(info, "OOM")
    do = "delete, or raise it: CONFIG SET maxmemory 4gb, then CONFIG REWRITE; MEMORY STATS tells which store takes what"
    if limit and limit <= own:
        do = f"raise it, as the server itself takes {size(own)}: CONFIG SET maxmemory 4gb, then CONFIG REWRITE"
    if _is_full(info):
        text = f"writes that add data are refused with OOM: {size(used)} are used, maxmemory is {size(limit)}"
        yield Finding("fail", "memory", text, do)
    elif limit and used > limit * MEMORY_SHARE_HIGH:
        text = f"{size(used)} of {size(limit)} maxmemory are used: beyond it writes that add data are refused"
        yield Finding("warn", "memory", text, do)
    elif limit:
        yield Finding("ok", "memory", f"{size(used)} of {size(limit)} maxmemory are used")
    if count and not _is_full(info):
        text = f"{count:,} commands were refused with OOM since the start, when memory was full; it is not now"
        yield Finding("ok", "refusals", text)


def _of_clients(info: Mapping[str, Any]) -> Iterator[Finding]:
    now, most = _number(info, "connected_clients"), _number(info, "maxclients")
    if most and now >= most * CLIENTS_SHARE_HIGH:
        yield Finding(
            "warn",
            "clients",
            f"{now:,} of {most:,} connections",
            "find who leaks them (CLIENT LIST), or raise maxclients",
        )
    turned_away = _number(info, "rejected_connections")
    if turned_away:
        yield Finding(
            "warn", "clients", f"{turned_away:,} were turned away for want of room", "raise maxclients, or use pools"
        )
    cut = _number(info, "client_output_buffer_limit_disconnections") + _number(
        info, "client_output_stall_disconnections"
    )
    if cut:
        yield Finding(
            "warn", "clients", f"{cut:,} were cut off because they did not read", "ask for less at a time, read faster"
        )


def _of_access(info: Mapping[str, Any], settings: Mapping[str, str]) -> Iterator[Finding]:
    host = settings.get("host", "")
    if host and host not in LOOPBACK and not settings.get("requirepass"):
        yield Finding(
            "fail",
            "password",
            f"none, and others can reach {host}: whoever does can read and change everything",
            "CONFIG SET requirepass …, then CONFIG REWRITE; or listen on 127.0.0.1",
        )
    failed = _number(info, "acl_access_denied_auth")
    if failed:
        yield Finding("warn", "logins", f"{failed:,} failed", "a client has an old password, or somebody is guessing")
    if settings.get("enable-debug-command") == "yes":
        yield Finding(
            "warn", "debug", "DEBUG may be used, which can stop the server", "start it without enable-debug-command"
        )


def _of_load(info: Mapping[str, Any]) -> Iterator[Finding]:
    lag_ms, worst_ms = _number(info, "event_loop_lag_usec") / 1000, _number(info, "event_loop_lag_max_usec") / 1000
    if lag_ms > LAG_MS_HIGH:
        yield Finding(
            "fail",
            "lag",
            f"the server is {lag_ms:.0f} ms behind right now",
            "SLOWLOG GET tells which commands take long",
        )
    elif worst_ms > LAG_MS_WORST:
        yield Finding("warn", "lag", f"once {worst_ms:.0f} ms behind", "SLOWLOG GET; then CONFIG RESETSTAT and watch")


def _of_start(info: Mapping[str, Any], crashed_s_ago: float | None) -> Iterator[Finding]:
    """A start of late that followed a crash: a service manager may have made it, unseen."""
    uptime_s = _number(info, "uptime_in_seconds")
    if crashed_s_ago is None or uptime_s >= RESTARTED_LATELY_S:
        return
    if crashed_s_ago < uptime_s + RESTARTED_LATELY_S:
        yield Finding(
            "warn",
            "uptime",
            f"started {duration(uptime_s)} ago, after a crash {duration(crashed_s_ago)} ago",
            "read the crash file in its folder and report it",
        )


def _number(info: Mapping[str, Any], name: str) -> int:
    try:
        return int(info.get(name) or 0)
    except (TypeError, ValueError):
        return 0


def _error_count(info: Mapping[str, Any], code: str) -> int:
    told = info.get(f"errorstat_{code}")
    return int(told.get("count", 0)) if isinstance(told, dict) else 0
