"""The text of INFO: `key:value` lines by section, in the form and with the names that Redis's tools read.

A line is there only if its value is known and true here; what Redis tells of and this server does not have is left
out, but for the few zeros that tools look for. Counts that need a walk over all objects come only when their section
is asked for by name, or with `everything`, so that a monitor that asks every second costs nothing.

`redis_version` is the version of Redis whose behaviour clients may expect; our own is `amemdb_version`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from amemdb import __version__, native
from amemdb.stores.stores import Stores

if TYPE_CHECKING:
    from amemdb.engine.state import ServerState

REDIS_VERSION = "8.2.0"
NS_PER_SECOND = 1_000_000_000
SECONDS_PER_DAY = 86_400

Lines = Iterable[tuple[str, object]]
Walk = bool
"""Whether to count what only a walk over all objects can tell."""


def text(state: ServerState, sections: list[str], stores: Stores, now_ms: int) -> str:
    """The lines of the sections asked for, or of the default ones."""
    parts = []
    for name, walk in _chosen(sections).items():
        lines = SECTIONS[name](state, stores, now_ms, walk)
        parts.append("".join([f"# {name.capitalize()}\r\n", *(f"{key}:{value}\r\n" for key, value in lines)]))
    return "\r\n".join(parts)


def _chosen(sections: list[str]) -> dict[str, Walk]:
    """The sections to tell, in the order of the table, each with whether to walk."""
    asked = set(sections) or {"default"}
    everything = "everything" in asked
    chosen = {}
    for name in SECTIONS:
        by_group = everything or "all" in asked or ("default" in asked and name not in NOT_BY_DEFAULT)
        if by_group or name in asked:
            chosen[name] = everything or name in asked
    return chosen


# -- the server --------------------------------------------------------------------------------------


def _server(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    uptime_s = (state.monotonic_ns() - state.started_at_ns) // NS_PER_SECOND
    yield "redis_version", REDIS_VERSION
    yield "amemdb_version", __version__
    yield "amemdb_native", "yes" if native.ENABLED else "no"
    yield "redis_mode", "standalone"
    yield "run_id", state.run_id
    yield from state.facts.items()
    yield "server_time_usec", now_ms * 1000
    yield "uptime_in_seconds", uptime_s
    yield "uptime_in_days", uptime_s // SECONDS_PER_DAY


def _clients(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    sessions = state.sessions.values()
    watching = [session for session in sessions if session.watched]
    yield "connected_clients", len(sessions)
    yield "maxclients", state.config.text("maxclients")
    yield "client_recent_max_input_buffer", max((session.query_bytes for session in sessions), default=0)
    yield "client_recent_max_output_buffer", max((session.output_bytes for session in sessions), default=0)
    yield "blocked_clients", 0
    yield "tracking_clients", 0
    yield "pubsub_clients", 0
    yield "watching_clients", len(watching)
    yield "total_watched_keys", len({watched for session in watching for watched in session.watched})


def _memory(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    told = state.memory_report()
    limit = state.memory.limit_bytes
    for name, count_bytes in (
        ("used_memory", told.used),
        ("used_memory_rss", told.resident),
        ("used_memory_peak", told.peak),
    ):
        yield name, count_bytes
        yield f"{name}_human", human(count_bytes)
    yield "used_memory_peak_perc", f"{100 * told.used / max(1, told.peak):.2f}%"
    yield "used_memory_overhead", told.overhead
    yield "used_memory_startup", told.startup
    yield "used_memory_dataset", told.dataset
    yield "used_memory_dataset_perc", f"{told.dataset_percentage:.2f}%"
    yield "maxmemory", limit
    yield "maxmemory_human", human(limit)
    yield "maxmemory_policy", state.config.text("maxmemory-policy")
    yield "mem_fragmentation_ratio", f"{told.fragmentation:.2f}"
    yield "mem_fragmentation_bytes", told.resident - told.used
    yield "mem_clients_slaves", 0
    yield "mem_clients_normal", told.clients
    yield "mem_aof_buffer", told.log
    yield "mem_allocator", "libc"
    yield "lazyfree_pending_objects", told.dropped_things
    yield "lazyfree_pending_bytes", told.dropped
    for family, count_bytes in told.families.items():
        yield f"used_memory_{family}", count_bytes
    yield "used_memory_text", told.text


def _persistence(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "loading", 0
    yield "async_loading", 0
    compaction = state.compaction
    running = int(compaction is not None and compaction.running)
    yield "rdb_bgsave_in_progress", running
    if compaction is not None:
        yield "rdb_last_save_time", compaction.last_save_s
    yield "rdb_last_bgsave_status", "err" if compaction is not None and compaction.error else "ok"
    yield "aof_enabled", 1
    yield "aof_rewrite_in_progress", running
    yield "aof_rewrite_scheduled", int(compaction is not None and compaction.scheduled)
    if compaction is not None:
        yield "aof_last_rewrite_time_sec", math.floor(compaction.last_s)
        yield "aof_current_rewrite_time_sec", math.floor(compaction.current_s)
        yield "aof_last_bgrewrite_status", "err" if compaction.error else "ok"
        yield "aof_rewrites", compaction.count
        yield "compaction_error", one_line(compaction.error)
        yield "compaction_read_bytes", compaction.progress.read
        yield "compaction_read_bytes_total", compaction.progress.of
        yield "compaction_written_bytes", compaction.progress.written
        yield "compaction_parts", compaction.parts
        yield "compaction_peak_memory", compaction.peak_bytes
    if state.log_status is None:
        return
    log = state.log_status()
    yield "aof_last_write_status", "err" if log.error else "ok"
    yield "aof_current_size", log.base_bytes + log.offset - log.base_offset
    yield "aof_base_size", log.base_bytes
    yield "log_policy", log.policy
    yield "log_offset", log.offset
    yield "log_durable_offset", log.durable_offset
    yield "log_undurable_bytes", log.offset - log.durable_offset
    yield "log_base_offset", log.base_offset
    yield "log_segments", log.segments
    yield "log_disk_bytes", log.disk_bytes
    yield "log_syncs", log.syncs
    yield "log_sync_failures", log.sync_failures
    yield "log_sync_usec", round(log.last_sync_ms * 1000)
    yield "log_sync_usec_max", round(log.longest_sync_ms * 1000)
    yield "log_error", one_line(log.error)


def _stats(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    rates = state.rates()
    yield "total_connections_received", state.connections_received
    yield "total_commands_processed", state.calls_total()
    yield "instantaneous_ops_per_sec", round(rates.commands)
    yield "total_net_input_bytes", state.traffic.input_bytes
    yield "total_net_output_bytes", state.traffic.output_bytes
    yield "instantaneous_input_kbps", f"{rates.input_bytes / 1024:.2f}"
    yield "instantaneous_output_kbps", f"{rates.output_bytes / 1024:.2f}"
    yield "rejected_connections", state.connections_rejected
    yield "expired_keys", state.expired
    yield "evicted_keys", 0
    yield "total_error_replies", sum(state.errors.values())
    yield "protocol_errors", state.protocol_errors
    yield "acl_access_denied_auth", state.logins_failed
    yield "client_output_buffer_limit_disconnections", state.output_limit_cuts
    yield "client_output_stall_disconnections", state.stall_cuts
    yield "client_idle_disconnections", state.idle_timeouts
    yield "event_loop_lag_usec", state.loop_lag_ns // 1000
    yield "event_loop_lag_max_usec", state.loop_lag_ns_max // 1000
    yield "slowlog_len", len(state.slow_commands)


def _replication(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "role", "master"
    yield "connected_slaves", 0
    yield "master_failover_state", "no-failover"
    yield "master_replid", state.run_id
    yield "master_replid2", "0" * 40
    yield "master_repl_offset", 0 if state.log_status is None else state.log_status().offset
    yield "second_repl_offset", -1
    yield "repl_backlog_active", 0


def _commandstats(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    for name, (calls, spent_ns, failed, rejected) in state.calls().items():
        yield (
            f"cmdstat_{name.lower()}",
            f"calls={calls},usec={spent_ns // 1000},usec_per_call={spent_ns / 1000 / max(calls, 1):.2f},"
            f"rejected_calls={rejected},failed_calls={failed}",
        )


def _errorstats(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    for code, count in sorted(state.errors.items()):
        yield f"errorstat_{code}", f"count={count}"


def _embedder(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    if state.embedder is None:
        yield "embedder_model", ""
        return
    for name, value in state.embedder.lines():
        yield f"embedder_{name}", one_line(str(value))


def _cluster(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "cluster_enabled", 0


# -- data --------------------------------------------------------------------------------------------


def _keyspace(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    for db, database in enumerate(stores.keys.databases):
        if database.values:
            yield f"db{db}", f"keys={len(database.values)},expires={len(database.expires)},avg_ttl=0"


def _conversation(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "conversation_sessions", len(stores.conv.sessions)
    if walk:
        yield "conversation_turns", sum(map(len, stores.conv.sessions.values()))


def _semantic(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "semantic_namespaces", len(stores.sem.namespaces)
    if walk:
        yield "semantic_facts", sum(len(namespace.facts) for namespace in stores.sem.namespaces.values())
    merges = stores.sem.merges()
    yield "semantic_graphs_merging", len(merges)
    yield "semantic_facts_merged", sum(merge.done for merge in merges)
    yield "semantic_facts_merging", sum(merge.total for merge in merges)


def _working(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "working_sessions", len(stores.work.sessions)
    if walk:
        yield "working_notes", sum(map(len, stores.work.sessions.values()))


def _episodic(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "episodic_agents", len(stores.epis.logs)
    if walk:
        yield "episodic_events", sum(len(log.events) for log in stores.epis.logs.values())


def _summary(state: ServerState, stores: Stores, now_ms: int, walk: Walk) -> Lines:
    yield "summary_agents", len(stores.summary.summaries)
    if walk:
        yield "summary_versions", sum(len(summary.versions) for summary in stores.summary.summaries.values())


SECTIONS: dict[str, Callable[[ServerState, Stores, int, Walk], Lines]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "commandstats": _commandstats,
    "errorstats": _errorstats,
    "embedder": _embedder,
    "cluster": _cluster,
    "keyspace": _keyspace,
    "conversation": _conversation,
    "semantic": _semantic,
    "working": _working,
    "episodic": _episodic,
    "summary": _summary,
}
NOT_BY_DEFAULT = frozenset({"commandstats"})


def human(count_bytes: int) -> str:
    """A number of bytes as people read it, in the form of Redis: `1.50M`."""
    size, unit = float(count_bytes), "B"
    for larger in "KMGTP":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count_bytes}B" if unit == "B" else f"{size:.2f}{unit}"


def one_line(value: str) -> str:
    """`value` without line breaks, which would begin a new line of INFO."""
    return " ".join(value.split())
